/**
 * Writes the Dockerfile, which takes its programs from the files of the release beside it, and examples for Compose and
 * Kubernetes. tini is process 1: it reaps the orphans of servers, which svc does not do.
 */

import { DEB_ARCHITECTURES } from "./deb.ts"
import { ALPINE_PACKAGES, type Cpu, type Facts, PLATFORMS } from "./facts.ts"

/** Returns the files by name. */
export function containerFiles(facts: Facts): ReadonlyMap<string, string> {
  return new Map([
    ["Dockerfile", dockerfile(facts)],
    ["compose.yaml", compose(facts)],
    ["kubernetes.yaml", kubernetes(facts)],
    ["kubernetes-replicas.yaml", kubernetesReplicas(facts)],
  ])
}

// ---

/** Returns the name of the image of a version; its variants are `-node` and `-alpine`. */
const imageOf = ({ owner, name, version }: Facts): string => `ghcr.io/${owner}/${name}:${version}`

const PORT = 3050
/** The user that distroless calls nonroot. */
const USER = 65532

function dockerfile(facts: Facts): string {
  const { name, version, description, license, repository } = facts
  const programs = PLATFORMS.filter(({ os }) => os === "linux").map(
    ({ file, cpu, libc }) => `FROM scratch AS ${libc}-${architectureOf(cpu)}\nCOPY --chmod=755 ${file} /svc\n`,
  )
  const settings = `ENV SVC_CONFIG_DIR=/config SVC_HOST=0.0.0.0 SVC_PORT=${PORT} SVC_AUTH=true HOME=/config
VOLUME /config
EXPOSE ${PORT}
LABEL org.opencontainers.image.title="${name}" \\
      org.opencontainers.image.description="${description}" \\
      org.opencontainers.image.version="${version}" \\
      org.opencontainers.image.licenses="${license}" \\
      org.opencontainers.image.source="${repository}"
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["/usr/bin/svc", "health"]
USER ${USER}:${USER}
WORKDIR /config
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/bin/svc"]
CMD ["serve"]`
  const documents = "COPY LICENSE THIRD-PARTY-NOTICES.txt /usr/share/doc/svc/"
  return `# Images of ${name} ${version} for linux/amd64 and linux/arm64, from the folder with the files of the release:
#   docker build --tag ${name} .                  ${name} alone, for remote servers and programs that you add
#   docker build --tag ${name} --target node .    with Node.js, for servers that start with npx
#   docker build --tag ${name} --target alpine .  on Alpine
# Clients need a token: docker exec CONTAINER svc auth token create --name NAME

${programs.join("\n")}
FROM debian:bookworm-slim AS base
RUN apt-get update && apt-get install --yes --no-install-recommends tini && mkdir /config

FROM glibc-\${TARGETARCH} AS glibc
FROM musl-\${TARGETARCH} AS musl

FROM node:24-bookworm-slim AS node
COPY --from=base /usr/bin/tini-static /usr/bin/tini
COPY --from=base --chown=${USER}:${USER} /config /config
COPY --from=glibc /svc /usr/bin/svc
${documents}
${settings}

FROM alpine:3 AS alpine
RUN apk add --no-cache ca-certificates ${ALPINE_PACKAGES.join(" ")}
COPY --from=base /usr/bin/tini-static /usr/bin/tini
COPY --from=base --chown=${USER}:${USER} /config /config
COPY --from=musl /svc /usr/bin/svc
${documents}
${settings}

FROM gcr.io/distroless/base-nossl-debian12:nonroot
COPY --from=base /usr/bin/tini-static /usr/bin/tini
COPY --from=base --chown=${USER}:${USER} /config /config
COPY --from=glibc /svc /usr/bin/svc
${documents}
${settings}
`
}

function compose(facts: Facts): string {
  return `# docker compose up --detach, then: docker compose exec svc svc auth token create --name laptop
services:
  svc:
    image: ${imageOf(facts)}-node
    restart: unless-stopped
    ports:
      - "127.0.0.1:${PORT}:${PORT}"
    volumes:
      - svc-config:/config
    read_only: true
    tmpfs:
      - /tmp
    cap_drop:
      - ALL
    security_opt:
      - no-new-privileges:true
volumes:
  svc-config: {}
`
}

/** Parts of both manifests, with the indentation of their places. */
const POD_SECURITY = `      securityContext:
        runAsNonRoot: true
        runAsUser: ${USER}
        runAsGroup: ${USER}
        fsGroup: ${USER}
        seccompProfile:
          type: RuntimeDefault`

const CONTAINER_SECURITY = `          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]`

const SERVICE = `apiVersion: v1
kind: Service
metadata:
  name: svc
spec:
  selector:
    app: svc
  ports:
    - name: http
      port: 80
      targetPort: http`

function kubernetes(facts: Facts): string {
  return `# One replica: the configuration, the tokens and the sessions belong to one svc. The claim keeps them.
# kubectl exec deploy/svc -- svc auth token create --name laptop
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: svc
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 1Gi
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: svc
spec:
  replicas: 1
  strategy:
    type: Recreate
  selector:
    matchLabels:
      app: svc
  template:
    metadata:
      labels:
        app: svc
    spec:
      automountServiceAccountToken: false
${POD_SECURITY}
      containers:
        - name: svc
          image: ${imageOf(facts)}-node
          args: [serve, --log-format, json]
          ports:
            - name: http
              containerPort: ${PORT}
          livenessProbe:
            httpGet:
              path: /health/live
              port: http
          readinessProbe:
            httpGet:
              path: /health/ready
              port: http
          startupProbe:
            httpGet:
              path: /health/live
              port: http
            failureThreshold: 30
            periodSeconds: 1
          resources:
            requests:
              cpu: 50m
              memory: 128Mi
${CONTAINER_SECURITY}
          volumeMounts:
            - name: config
              mountPath: /config
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: config
          persistentVolumeClaim:
            claimName: svc
        - name: tmp
          emptyDir: {}
---
${SERVICE}
`
}

function kubernetesReplicas(facts: Facts): string {
  return `# Replicas that share a Redis or Valkey. It needs the secret svc-redis with the key password, and in mcp.json the servers.
# The autoscaler needs an adapter that serves the metric svc_calls_in_flight of pods, such as prometheus-adapter or KEDA.
apiVersion: v1
kind: ConfigMap
metadata:
  name: svc
data:
  mcp.json: |
    { "mcpServers": {} }
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: svc
spec:
  replicas: 3
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  selector:
    matchLabels:
      app: svc
  template:
    metadata:
      labels:
        app: svc
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "${PORT}"
    spec:
      automountServiceAccountToken: false
      # Longer than --drain-delay and --shutdown-grace together.
      terminationGracePeriodSeconds: 40
${POD_SECURITY}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app: svc
      containers:
        - name: svc
          image: ${imageOf(facts)}-node
          args: [serve, --config, /etc/svc/mcp.json, --log-format, json, --metrics, --drain-delay, 5s, --shutdown-grace, 25s]
          env:
            - name: POD_IP
              valueFrom:
                fieldRef:
                  fieldPath: status.podIP
            - name: REDIS_PASSWORD
              valueFrom:
                secretKeyRef:
                  name: svc-redis
                  key: password
            # svc itself reads the password, so that it is in no list of processes.
            - name: SVC_CLUSTER
              value: redis://:\${REDIS_PASSWORD}@redis:6379
            - name: SVC_CLUSTER_ADDRESS
              value: http://$(POD_IP):${PORT}
          ports:
            - name: http
              containerPort: ${PORT}
          livenessProbe:
            httpGet:
              path: /health/live
              port: http
          readinessProbe:
            httpGet:
              path: /health/ready
              port: http
            periodSeconds: 2
          startupProbe:
            httpGet:
              path: /health/live
              port: http
            failureThreshold: 30
            periodSeconds: 1
          resources:
            requests:
              cpu: 250m
              memory: 256Mi
${CONTAINER_SECURITY}
          volumeMounts:
            - name: configuration
              mountPath: /etc/svc
            - name: state
              mountPath: /config
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: configuration
          configMap:
            name: svc
        - name: state
          emptyDir: {}
        - name: tmp
          emptyDir: {}
---
${SERVICE}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: svc
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: svc
  minReplicas: 3
  maxReplicas: 12
  metrics:
    - type: Pods
      pods:
        metric:
          name: svc_calls_in_flight
        target:
          type: AverageValue
          averageValue: "100"
  behavior:
    scaleDown:
      stabilizationWindowSeconds: 300
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: svc
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app: svc
---
# Clients come through the ingress controller, and the replicas reach each other. What servers reach is not limited here.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: svc
spec:
  podSelector:
    matchLabels:
      app: svc
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels:
              app: svc
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: ingress-nginx
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: monitoring
      ports:
        - port: http
`
}

const architectureOf = (cpu: Cpu): string => DEB_ARCHITECTURES[cpu]
