/** Routes in the hash of the URL, such as `#/servers/files/tools?q=read`. */
import { useEffect, useState } from "preact/hooks"

export type Route = {
  /** The parts of the path, decoded. */
  readonly path: readonly string[]
  readonly query: Readonly<Record<string, string>>
}

/** Parses the route from a hash. */
function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2)
  return {
    path: path
      .split("/")
      .filter((part) => part !== "")
      .map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  }
}

/** Returns the link to a path with a query. Omits empty values. */
export function linkTo(path: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""))
  return `#/${path.map(encodeURIComponent).join("/")}${given.size === 0 ? "" : `?${given}`}`
}

/** Navigates to a route. `replace` adds no entry to the history. */
export function goTo(path: readonly string[], query: Readonly<Record<string, string>> = {}, replace = false): void {
  const link = linkTo(path, query)
  if (!replace) {
    location.hash = link
    return
  }
  history.replaceState(null, "", link)
  dispatchEvent(new HashChangeEvent("hashchange"))
}

/** Returns the path of the view that is open now. */
export const openView = (): string => location.hash.split("?", 1)[0] ?? ""

/** Returns a function that navigates as `goTo` does, unless the person has opened another view since. */
export function goFromHere(): (path: readonly string[]) => void {
  const here = openView()
  return (path) => {
    if (openView() === here) goTo(path)
  }
}

/** Returns the current route, and renders again when it changes. */
export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash))
  useEffect(() => {
    const update = () => setRoute(parseRoute(location.hash))
    addEventListener("hashchange", update)
    return () => removeEventListener("hashchange", update)
  }, [])
  return route
}

// ---

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
