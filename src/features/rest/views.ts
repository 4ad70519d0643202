/**
 * The unversioned views for scripts. They show what `/mcp` shows the same client, selected by the same query, and call tools by
 * `server/tool`. choice: Views, REST.
 */

import { STATUS_BY_STATE } from "../../backend/supervision.ts"
import { countEntries, viewOf } from "../../catalog/catalog.ts"
import { type Scope, scopeIncludes } from "../../catalog/scope.ts"
import { nameKey } from "../../catalog/view-rules.ts"
import { HTTP_STATUS, RequestError } from "../../lib/errors.ts"
import { unknownNameError } from "../../lib/nearest.ts"
import { stateOf } from "../../report/server-state.ts"
import { readJson } from "../../serve/request-body.ts"
import { errorResponse, jsonResponse, retryHeaders } from "../../serve/respond.ts"
import type { ApiRequest } from "../../serve/server.ts"
import { invokeTool, resultResponse } from "../../serve/tool-invocation.ts"
import { aggregateInstructionsFor } from "../../session/server-capabilities.ts"
import { isObject, type Params } from "../../wire/message.ts"
import type { RestPorts } from "./endpoint.ts"

/** Answers a view without a version. Throws a RequestError. */
export async function serveView(rest: ApiRequest, ports: RestPorts, maxBody: number): Promise<Response> {
  const { path, request, search } = rest.inbound
  const run = VIEWS[path]
  if (path === INVOCATIONS) return request.method === "POST" ? invoke(rest, ports, maxBody) : wrongMethod("POST")
  if (run === undefined)
    throw new RequestError("not_found", `There is no view ${path.slice(0, 200)}; REST is at /api/v1, see docs/rest.md`)
  if (request.method !== "GET" && request.method !== "HEAD") return wrongMethod("GET, HEAD")
  // `scope` reads the parameters that select servers; `target` is not one of them.
  return jsonResponse(run(ports, rest.scope(), new URLSearchParams(search)), undefined, { "cache-control": "no-store" })
}

// ---

const INVOCATIONS = "/api/tool-invocations"

type ApiView = (ports: RestPorts, scope: Scope, query: URLSearchParams) => unknown

const VIEWS: Readonly<Record<string, ApiView>> = {
  "/api/servers": (ports, scope) => ({ servers: serversIn(ports, scope) }),
  "/api/tools": (ports, scope) => ({ tools: toolsIn(ports, scope) }),
  "/api/inspect": (ports, scope, query) => inspect(ports, scope, query.get("target") ?? ""),
  "/api/instructions": (ports, scope) => ({
    instructions: aggregateInstructionsFor(scope, viewOf(ports.agent.catalog, scope), ports.gateway) ?? "",
  }),
}

function serversIn({ agent, clock }: RestPorts, scope: Scope) {
  const shaped = new Map(
    viewOf(agent.catalog, scope).parts.flatMap((part) => (part.isShaped ? [[part.spec.id, part] as const] : [])),
  )
  return agent
    .snapshot()
    .backends.filter(({ spec }) => scopeIncludes(scope, spec))
    .map((backend) => {
      const { spec, state } = backend
      const part = shaped.get(spec.id)
      const listed = part === undefined ? backend.listed : countEntries(part)
      return {
        name: spec.name,
        slug: spec.slug,
        type: spec.launch.transport,
        status: STATUS_BY_STATE[state.kind].status,
        state: stateOf(backend, clock.now()),
        tags: spec.tuning.tags,
        ...(listed === undefined ? {} : { tools: listed.tools, prompts: listed.prompts, resources: listed.resources }),
      }
    })
}

/** Returns all tools that a scope offers, with the names of their servers, even if a lazy view lists only a few. */
function toolsIn({ agent }: RestPorts, scope: Scope) {
  const view = viewOf(agent.catalog, scope)
  const names = new Map([...view.tools].map(([name, route]) => [nameKey(route.id, route.name), name]))
  return view.parts.flatMap(({ spec, plain }) => {
    return plain.entries["tools/list"].map((text) => {
      const { name, ...tool } = JSON.parse(text) as Params & { readonly name: string }
      return { server: spec.name, tool: name, name: names.get(nameKey(spec.id, name)), ...tool }
    })
  })
}

function inspect(ports: RestPorts, scope: Scope, target: string) {
  if (target === "") throw new RequestError("invalid_params", "target is missing: ?target=<server> or <server>/<tool>")
  const servers = serversIn(ports, scope)
  const tools = toolsIn(ports, scope)
  const server = servers.find(({ name, slug }) => name === target || slug === target)
  if (server !== undefined) return { ...server, offers: tools.filter((tool) => tool.server === server.name) }
  const tool = tools.find((one) => `${one.server}/${one.tool}` === target || one.name === target)
  if (tool !== undefined) return tool
  const known = [...servers.map(({ name }) => name), ...tools.map((one) => `${one.server}/${one.tool}`)]
  throw unknownNameError("server or tool", target.slice(0, MAX_NAME), known)
}

/** Calls a tool: answers `{tool: "<server>/<tool>", args}` with `{result, server, tool}`. */
async function invoke(rest: ApiRequest, ports: RestPorts, maxBody: number): Promise<Response> {
  const { request, principal } = rest.inbound
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get("content-type") ?? ""))
    throw new RequestError("unsupported_media_type", "Content-Type must be application/json")
  const body = await readJson(request, maxBody)
  rest.onbody()
  if (!isObject(body) || typeof body.tool !== "string" || !body.tool.includes("/"))
    throw new RequestError("invalid_params", 'Send {"tool": "<server>/<tool>", "args": {…}}')
  // MCP and the other endpoints call it `arguments`.
  const { tool, args = body.arguments ?? {} } = body
  if (!isObject(args)) throw new RequestError("invalid_params", "args must be an object")
  const scope = rest.scope()
  const servers = serversIn(ports, scope).filter(({ name, slug }) =>
    [`${name}/`, `${slug}/`].some((prefix) => tool.startsWith(prefix)),
  )
  // A server's name may contain a slash, so the longest matching name is used.
  const server = servers.sort((one, other) => other.name.length - one.name.length)[0]
  if (server === undefined)
    throw new RequestError(
      "not_found",
      `no server at this address has the name in ${tool.slice(0, MAX_NAME)}; see /api/servers`,
    )
  const prefix = [`${server.name}/`, `${server.slug}/`].find((one) => tool.startsWith(one)) ?? ""
  const name = tool.slice(prefix.length)
  const qualified = toolsIn(ports, scope).find((one) => one.server === server.name && one.tool === name)?.name
  if (qualified === undefined && server.status === "connected")
    throw new RequestError("not_found", `${server.name} offers no tool named ${name.slice(0, MAX_NAME)}`)
  // Read before the call: a server that dies during it has failed, and was connected.
  const wasDown = isDown(ports, server.name)
  const caller = { scope, principal: principal.name, signal: request.signal }
  const outcome = await invokeTool(qualified ?? `${server.slug}_svc_${name}`, args, caller, ports.gateway)
  if (outcome.kind === "result") return resultResponse(outcome.result, { server: server.name, tool: name })
  const { message, status, retryAfter } = outcome
  const shown = wasDown && isDown(ports, server.name) ? HTTP_STATUS.unavailable : status
  return jsonResponse({ error: message, server: server.name, tool: name }, shown, retryHeaders(retryAfter))
}

const isDown = ({ agent }: RestPorts, name: string): boolean =>
  agent.find(name).every(({ listing }) => listing === undefined)

const MAX_NAME = 200

const wrongMethod = (allow: string): Response =>
  errorResponse(new RequestError("wrong_method", "Method not allowed"), { shape: "json", headers: { allow } })
