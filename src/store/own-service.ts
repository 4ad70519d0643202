/** Describes this svc, so that its configuration cannot make it serve itself. */
import type { OwnService } from "../config/own-service.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { type Paths, pathsOf } from "./paths.ts"

/** Returns this svc, which serves the configuration at `paths` at `urls`. */
export function ownService(paths: Paths, urls: readonly string[]): OwnService {
  const { platform, env, execPath } = process
  return {
    urls,
    program: execPath,
    serves: ({ config, directory }, cwd) =>
      pathsOf({ config, directory, platform, home: homeDirectory(), appData: env.APPDATA, cwd }).file === paths.file,
  }
}
