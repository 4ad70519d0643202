/** Levels of log messages. server: Logging. */

/** Least severe first. */
export const MCP_LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const

export const isLogLevel = (value: unknown): value is (typeof MCP_LOG_LEVELS)[number] =>
  (MCP_LOG_LEVELS as readonly unknown[]).includes(value)

/** How severe a level is; -1 for what is none. */
export const severityOf = (level: unknown): number => (MCP_LOG_LEVELS as readonly unknown[]).indexOf(level)
