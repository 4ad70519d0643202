/** The views, in the order of the navigation. */
import type { ComponentType } from "preact"
import type { Route } from "./router.ts"
import { ActivityView } from "./views/activity.tsx"
import { ApprovalCount, ApprovalsView } from "./views/approvals.tsx"
import { ClientsView } from "./views/clients.tsx"
import { HistoryView } from "./views/history.tsx"
import { IssueCount, IssuesView } from "./views/issues.tsx"
import { LogsView } from "./views/logs.tsx"
import { PresetsView } from "./views/presets.tsx"
import { RegistryView } from "./views/registry.tsx"
import { SearchView } from "./views/search.tsx"
import { SecretsView } from "./views/secrets.tsx"
import { ServerCount } from "./views/servers.tsx"
import { SessionsView } from "./views/sessions.tsx"
import { TemplatesView } from "./views/templates.tsx"
import { ToolsView } from "./views/tools.tsx"
import { ServersOrWelcome } from "./views/welcome.tsx"

export type View = {
  /** The first part of the route. */
  readonly id: string
  readonly title: string
  readonly Draw: ComponentType<{ route: Route }>
  /** The number beside the title in the navigation. */
  readonly Count?: ComponentType
}

export const VIEWS: readonly View[] = [
  { id: "servers", title: "Servers", Draw: ServersOrWelcome, Count: ServerCount },
  { id: "clients", title: "Clients", Draw: ClientsView },
  { id: "tools", title: "Tools", Draw: ToolsView },
  { id: "search", title: "Search", Draw: SearchView },
  { id: "presets", title: "Presets", Draw: PresetsView },
  { id: "templates", title: "Templates", Draw: TemplatesView },
  { id: "registry", title: "Registry", Draw: RegistryView },
  { id: "activity", title: "Activity", Draw: ActivityView },
  { id: "sessions", title: "Sessions", Draw: SessionsView },
  { id: "logs", title: "Logs", Draw: LogsView },
  { id: "approvals", title: "Approvals", Draw: ApprovalsView, Count: ApprovalCount },
  { id: "secrets", title: "Secrets", Draw: SecretsView },
  { id: "history", title: "History", Draw: HistoryView },
  { id: "issues", title: "Issues", Draw: IssuesView, Count: IssueCount },
]
