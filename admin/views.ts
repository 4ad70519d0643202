/** The views, in the order of the navigation. */
import type { ComponentType } from "preact"
import type { Route } from "./router.ts"
import { LogsView } from "./views/logs.tsx"
import { ServerCount, ServersView } from "./views/servers.tsx"
import { ToolsView } from "./views/tools.tsx"

export type View = {
  /** The first part of the route. */
  readonly id: string
  readonly title: string
  readonly Draw: ComponentType<{ route: Route }>
  /** What the navigation shows beside the title. */
  readonly Count?: ComponentType
}

export const VIEWS: readonly View[] = [
  { id: "servers", title: "Servers", Draw: ServersView, Count: ServerCount },
  { id: "tools", title: "Tools", Draw: ToolsView },
  { id: "logs", title: "Logs", Draw: LogsView },
]
