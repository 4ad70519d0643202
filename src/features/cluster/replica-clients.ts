/**
 * Sends requests to the other replicas. Each has connections of its own, so that requests that hang at one delay no request to
 * another, and no probe. They are those of many users, so no cookie is kept.
 */
import { type HttpClientOptions, openRemoteClient, type RemoteClient } from "../../backend/http-client.ts"
import { RemoteResponse } from "../../backend/remote-response.ts"

export class ReplicaClients {
  /** By origin. */
  private readonly clients = new Map<string, RemoteClient>()

  constructor(
    private readonly options: Pick<HttpClientOptions, "clock" | "env">,
    /** Returns the addresses of the replicas that live. */
    private readonly addresses: () => readonly string[],
  ) {}

  /** Sends a request, and never follows a redirect. Rejects as the client does: each request has a time limit of its own. */
  readonly send = (url: string, init: RequestInit): Promise<Response> => this.request(url, init, false)

  /** The same for a probe, which waits for no other request. */
  readonly probe = (url: string, init: RequestInit): Promise<Response> => this.request(url, init, true)

  close(): void {
    for (const client of this.clients.values()) client.close()
  }

  // ---

  private async request(url: string, init: RequestInit, isUrgent: boolean): Promise<Response> {
    const { method = "GET" } = init
    const response = await this.clientFor(new URL(url).origin).fetch(url, {
      ...init,
      headers: Object.fromEntries(new Headers(init.headers)),
      mayRepeat: () => method === "GET" || method === "HEAD",
      isUrgent,
    })
    const full = response instanceof RemoteResponse ? response.response : response
    // Its body is decoded.
    full.headers.delete("content-encoding")
    return full
  }

  private clientFor(origin: string): RemoteClient {
    const known = this.clients.get(origin)
    if (known !== undefined) return known
    const living = new Set(this.addresses().map((address) => new URL(address).origin))
    // Their last requests end by themselves, and their idle connections soon.
    for (const other of this.clients.keys()) if (!living.has(other)) this.clients.delete(other)
    const client = openRemoteClient(origin, { ...this.options, limit: MAX_CONNECTIONS, keepsCookies: false })
    this.clients.set(origin, client)
    return client
  }
}

// ---

/** The most connections to one replica: each forwarded stream keeps one for the life of its client. */
const MAX_CONNECTIONS = 4096
