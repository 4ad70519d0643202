import { homedir } from "node:os"

/** Returns the home directory; `/` for a user without one, as in containers with an arbitrary user id. */
export function homeDirectory(): string {
  try {
    return homedir()
  } catch {
    return "/"
  }
}
