/** The certificate of a running svc: read, checked, and replaced when its files change. */
import { readFileSync } from "node:fs"
import { systemClock } from "../lib/clock.ts"
import { fileProblem, messageOf, UnavailableError } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import type { Listening, Tls } from "../serve/server.ts"
import { watchFiles } from "../store/watch.ts"

/** Reads the certificate chain and its key from the given files. Throws an UnavailableError that names the faulty file. */
export function readTls({ cert, key }: Tls): Tls {
  const read = (path: string) => {
    try {
      return readFileSync(path, "utf8")
    } catch (cause) {
      throw new UnavailableError(`cannot read ${path}: ${fileProblem(cause)}`, { cause })
    }
  }
  const tls = { cert: read(cert), key: read(key) }
  try {
    process.getBuiltinModule("node:tls").createSecureContext(tls)
  } catch (cause) {
    throw new UnavailableError(`${cert} and ${key} are not a certificate and its private key: ${messageOf(cause)}`, {
      cause,
    })
  }
  return tls
}

/** Serves new connections with the new certificate whenever the files change. */
export function watchTls(files: Tls, listening: Listening, log: Log): { close(): void } {
  return watchFiles([files.cert, files.key], systemClock, () => {
    try {
      listening.secure(readTls(files))
      log.info("reloaded the certificate; new connections use it")
    } catch (error) {
      log.error(`the certificate was not replaced, and the old one stays in use: ${messageOf(error)}`)
    }
  })
}
