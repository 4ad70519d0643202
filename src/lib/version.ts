/** The version and commit that build.ts compiles in; a run from source has placeholders. */

declare const SVC_VERSION: string | undefined
declare const SVC_COMMIT: string | undefined

/** Without a leading `v`. */
export const version: string = typeof SVC_VERSION === "string" ? SVC_VERSION : "0.0.0-dev"
export const commit: string = typeof SVC_COMMIT === "string" ? SVC_COMMIT : "source"
