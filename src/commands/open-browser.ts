import { systemClock } from "../lib/clock.ts"

/** Opens the browser; false if there is none. */
export async function openBrowser(url: string): Promise<boolean> {
  if (!/^https?:\/\//.test(url)) return false
  const { platform, env } = process
  if (
    platform === "linux" &&
    env.DISPLAY === undefined &&
    env.WAYLAND_DISPLAY === undefined &&
    env.BROWSER === undefined
  )
    return false
  try {
    const cmd = [...openerOf(platform), url]
    const child = Bun.spawn({ cmd, stdin: "ignore", stdout: "ignore", stderr: "ignore" })
    // Some openers run as long as the browser does.
    const stays = new Promise<number>((resolve) => systemClock.after(OPENED_MS, () => resolve(0)))
    return (await Promise.race([child.exited, stays])) === 0
  } catch {
    return false
  }
}

// ---

/** Returns the command that opens a URL in the default browser. */
function openerOf(platform: NodeJS.Platform): readonly string[] {
  if (platform === "darwin") return ["open"]
  return platform === "win32" ? ["rundll32", "url.dll,FileProtocolHandler"] : ["xdg-open"]
}

/** An opener that still runs after this time has opened the browser. */
const OPENED_MS = 2000
