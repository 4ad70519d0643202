/** The URL of the releases and the key that signs them. build.ts compiles them into a release; a build from source has neither. */

declare const SVC_RELEASES: string | undefined
declare const SVC_RELEASE_KEY: string | undefined

const known = (value: string | undefined): string | undefined => (value === "" ? undefined : value)

/** The URL of the folder with the files of the latest release. */
export const releasesUrl = known(typeof SVC_RELEASES === "string" ? SVC_RELEASES : undefined)
/** The public key of minisign. */
export const releaseKey = known(typeof SVC_RELEASE_KEY === "string" ? SVC_RELEASE_KEY : undefined)
