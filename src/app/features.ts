/**
 * The features of a running svc. Each is imported here when it is on, and fills ports of the core: no other file of app/ names a
 * file of a feature.
 */
import type { AdminInterface } from "../features/rest/admin-interface.ts"
import { ADMIN_SCOPE } from "../serve/challenge.ts"

export type { AdminInterface }

type Admin = ConstructorParameters<typeof AdminInterface>

/** Opens REST and its login. */
export async function openAdmin(deps: Admin[0], options: Admin[1]): Promise<AdminInterface> {
  const { AdminInterface } = await import("../features/rest/admin-interface.ts")
  return new AdminInterface(deps, options)
}

/** Opens svc's client of the issuer at which people log in to the admin page. */
export async function openIssuerClient(issuer: string, metadataUrl: string | undefined) {
  const { createIssuerClient } = await import("../features/oauth/issuer-client.ts")
  return createIssuerClient({ issuer, scope: ADMIN_SCOPE, metadataUrl, fetch: (url, init) => fetch(url, init) })
}
