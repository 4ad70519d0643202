import { homedir } from "node:os"

/** Returns the home directory; `/` for a user without one, as in containers with an arbitrary user id. */
export function homeDirectory(): string {
  // The variable as it is now: Bun's homedir() sees it as it was at the start of the process.
  const { HOME } = process.env
  if (HOME !== undefined && process.platform !== "win32") return HOME
  try {
    return homedir()
  } catch {
    return "/"
  }
}
