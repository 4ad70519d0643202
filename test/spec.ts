/**
 * The specification as data: every sentence that can fail, with where it comes from. A test cites an id by having it in
 * brackets at the end of its title, `test("… [health:ready:crash-loop]", …)`; `spec.test.ts` compares the two. What is
 * not built yet is marked with the reason, so that the distance can be read here at any time. Entries from "choice" are
 * what svc does where the specification is silent: the project's decision record.
 */
export type Sentence = {
  readonly says: string
  /** A heading of the specification, or "choice". */
  readonly from: string
  /** Why, for choices. */
  readonly why?: string
  /** The reason that no test cites it yet. */
  readonly unbuilt?: string
}

export const SPEC: Readonly<Record<string, Sentence>> = {
  // Health report
  "health:status:values": { says: "status is healthy, degraded or unhealthy", from: "Health report" },
  "health:report:timestamp": { says: "timestamp is ISO 8601 UTC with milliseconds", from: "Health report" },
  "health:report:version": {
    says: "the body's version equals X-Service-Version and has no leading v",
    from: "Versioning",
  },
  "health:report:uptime": { says: "system.uptime is in seconds and equals X-Uptime-Seconds", from: "GET /health" },
  "health:report:memory": {
    says: "memory used and total are MB of heap; percentage is used of total, one decimal",
    from: "choice",
    why: "the heap is what the process can say of itself",
  },
  "health:report:servers": { says: "servers counts total, healthy and unhealthy", from: "Health report" },
  "health:report:absent": {
    says: "lastConnected and lastError are absent when unknown; tags is always an array",
    from: "choice",
    why: "an absent field cannot be mistaken for a value",
  },
  "health:report:disabled": {
    says: "disabled servers are counted in configuration alone",
    from: "choice",
    why: "what is switched off is neither healthy nor unhealthy",
  },
  "health:report:left-out": {
    says: "a server or template that an issue keeps from running counts in no server count, and is in the issues; a template without instances counts in configuration alone",
    from: "choice",
    why: "one faulty entry must not take a service that works out of a load balancer",
  },
  "health:report:configuration": {
    says: "configuration holds loaded, the three counts, authEnabled and transport",
    from: "Health report",
  },
  "health:level:default": { says: "the level is minimal when nothing is said", from: "Detail levels" },
  "health:level:option": {
    says: "the level comes from --health-info-level or SVC_HEALTH_INFO_LEVEL",
    from: "Detail levels",
  },
  "health:level:minimal": {
    says: "minimal has status, counts and configuration, and no error text",
    from: "Detail levels",
  },
  "health:level:basic": { says: "basic adds memory, platform, runtime and per-server details", from: "Detail levels" },
  "health:level:full": { says: "full adds pid, arch and per-server protocol facts", from: "Detail levels" },
  "health:sanitize:credentials": {
    says: "user:password@, tokens and keys never leave in error text",
    from: "Detail levels",
  },
  "health:sanitize:places": {
    says: "URLs and paths are redacted, IP addresses anonymized",
    from: "Detail levels",
  },
  "health:sanitize:harmless": {
    says: "nothing is redacted in a message without credentials, addresses and paths",
    from: "choice",
    why: "an operator reads the cause of an error in its words",
  },
  "health:overall:not-loaded": {
    says: "a configuration that was not loaded is unhealthy",
    from: "Overall health status",
  },
  "health:overall:all": { says: "all servers healthy is healthy", from: "Overall health status" },
  "health:overall:none": { says: "no servers is degraded", from: "Overall health status" },
  "health:overall:half": {
    says: "more than half healthy is degraded, half or fewer unhealthy",
    from: "choice",
    why: "the rows overlap at half; the safer answer for a load balancer is unhealthy",
  },
  "health:http:headers": {
    says: "Content-Type, Cache-Control, X-Health-Status, X-Service-Version and X-Uptime-Seconds are there",
    from: "GET /health",
  },
  "health:http:status": { says: "200 when healthy or degraded, 503 when unhealthy", from: "GET /health" },
  "health:http:failure": {
    says: "a report that cannot be computed is 500 with status, timestamp, error and message",
    from: "Failure body",
  },
  "health:http:method": {
    says: "a wrong method is 405 with Allow, an unknown path 404, both JSON",
    from: "choice",
    why: "a probe that is set up wrongly must see it",
  },
  "health:http:not-loaded": { says: "not loaded: /health and /health/ready are 503 with zero counts", from: "Errors" },
  "health:http:never-waits": {
    says: "/health reads the snapshot and waits for no backend",
    from: "choice",
    why: "a health check must not hang on what it reports",
  },
  "health:healthy:server": {
    says: "a server is healthy when connected, answering pings, with no transport failure in 60 s on its current connection",
    from: "choice",
    why: "connected alone can be hours old, and a failure before a reconnect is over",
  },
  "tools:health": {
    says: "mcp_status and svc mcp status show whether a server is healthy, why it is not, and its last ping, as /health and /health/mcp do",
    from: "choice",
    why: "connected alone does not tell a server that hangs from one that works",
  },
  "tool:counts": {
    says: "tools counts what clients are offered, hiddenTools what is kept from them; a server whose tools are all hidden is said to offer nothing, in the log and in its status",
    from: "choice",
    why: "a count of tools that no client sees hides that the server is of no use",
  },
  "health:unresponsive": {
    says: "a server that does not answer pings has that as its last error, and is logged once",
    from: "choice",
    why: "an unhealthy server without a reason cannot be repaired",
  },
  "backend:reason": {
    says: "a connection that fails is reported with its host and the cause in words; a refusal with what to check; a web page as such, never its text",
    from: "choice",
    why: "a code of the runtime and a page of HTML say nothing of what to mend",
  },
  "backend:unanswered": {
    says: "a start without an answer for 10 s says so in the status, with the time that it may take, and whether the process prints text on stdout that is not MCP",
    from: "choice",
    why: "five minutes of silence look like a fault of svc",
  },
  "backend:down": {
    says: "a call to a server that is down says why, with the host of its address, and when svc tries it again",
    from: "choice",
    why: "a model that knows the cause tells the person, and does not try again at once",
  },
  "supervise:refused": {
    says: "a remote server that is there and refuses svc (4xx, a web page, a wrong revision) is tried again ever more rarely, up to 256 times the delay",
    from: "choice",
    why: "a wrong address or a missing permission does not mend itself",
  },
  "config:time": {
    says: "a time with a unit is refused with the number of milliseconds to write, the server that it leaves out is named, and the other mistakes of the server are told too",
    from: "choice",
    why: "one mistake at a time costs a reload each",
  },
  "port:own": {
    says: "a port in use is said to be another svc's if one answers there, and that of the same configuration with its address",
    from: "choice",
    why: "another --port would only lead to the next refusal",
  },
  "output:full": {
    says: "a command whose output cannot be written ends with one line and exit code 74",
    from: "choice",
    why: "a script must see that what it has is not whole",
  },
  "doctor:findings": {
    says: "svc doctor finds what is wrong with the configuration, the commands, the remote servers, the clients and svc's own files; each finding says what is wrong, why it matters and how to fix it; the exit code is 0, 1 for warnings, 2 for errors",
    from: "choice",
    why: "a person who cannot tell where the fault is needs one command that looks everywhere",
  },
  "doctor:fix": {
    says: "svc doctor --fix repairs permissions and removes files of ended processes, says each repair, and asks unless --yes is given",
    from: "choice",
    why: "what loses nothing may be mended at once; all else is for a person",
  },
  "exit:reason": {
    says: "the exit of a server is reported with the error line of its crash: the last traceback of Python, the thrown error of Node.js",
    from: "choice",
    why: "an exit code explains nothing, and the source line above the error misleads",
  },
  "backend:lists:kept": {
    says: "a list that fails after a restart or a reconnect keeps what the connection before listed",
    from: "choice",
    why: "a tool that vanishes for a moment is a failed call, and a model takes another server's instead",
  },
  "backend:lists:unlisted": {
    says: "a call by a name of a server that has never answered that list names the server and the failure",
    from: "choice",
    why: "the name is not known to be wrong, and a similar name of another server does another thing",
  },
  "backend:lists": {
    says: "a server whose one list fails is connected with what it does list; the list is asked for again, and the server is not restarted for it",
    from: "choice",
    why: "a list of prompts that fails must not cost the tools that work",
  },
  "backend:degraded": {
    says: "a server that is connected and has a list that fails is called degraded with the cause, counts as healthy while its pings are answered, and is connected in /health",
    from: "choice",
    why: "what works is not down, and what fails must be seen",
  },
  "isolation:lists": {
    says: "a session with its own process of a server is offered what that process lists, and is told when it lists anew; others are not concerned",
    from: "choice",
    why: "a list of another process names tools that this one has not, and hides those that it has",
  },
  "aggregate:extensions": {
    says: "the aggregate advertises apps, tasks and skills, which it routes, and no other extension; a server's own address advertises all of the server's",
    from: "choice",
    why: "a client believes what is advertised, and a method that names no server leads to none",
  },
  "skills:aggregate": {
    says: "on /mcp, skills/list unites the skills of all servers in scope, asked for each time, and leaves out a server that fails; skills/get and resources/directory/read go to the server that the URI names; URIs are renamed, digests and frontmatter are not; the address of one server relays the extension as it is",
    from: "choice",
    why: "no notification says that a skill changed, and a client lists again because a digest no longer matches: an answer that svc keeps would repeat the old digest",
  },
  "cards:serve": {
    says: "GET /mcp/server-card and /servers/<name>/mcp/server-card answer Server Cards, with ETag, caching and CORS headers; /.well-known/ai-catalog.json lists them if --external-url is set, and pages of all origins may read what is published so",
    from: "choice",
    why: "the extension reserves the address; without an external address svc is not published, and a page must not find an svc beside the browser",
  },
  "cards:auth": {
    says: "under --auth the card of the aggregate and the catalog need no token and name no server; the card of a server needs a token that opens the server",
    from: "choice",
    why: "a client needs the card before it has a token, and nothing that a scope hides may be public",
  },
  "cards:read": {
    says: "svc mcp add --url and svc mcp install --url take a host or page whose server card or AI catalog names one MCP endpoint, and show what was found; several are listed; an address that ends with mcp or sse, or answers MCP, is taken as it is",
    from: "choice",
    why: "people know the host of a service, and rarely the path of its endpoint",
  },
  "cards:ssrf": {
    says: "a card or catalog of a public host leads svc to no address of its own machine or network, from https to no http, and sets neither a header that HTTP or MCP decides nor a password in the address",
    from: "choice",
    why: "a card is a claim of its host, which svc may reach addresses for that the host may not",
  },
  "health:live": { says: "/health/live is 200 alive whenever svc can answer", from: "GET /health/live" },
  "health:ready:loaded": {
    says: "/health/ready is 200 when loaded and no supervised backend is restarting or in crash-loop",
    from: "Readiness",
  },
  "health:ready:restarting": {
    says: "/health/ready is 503 while a supervised backend restarts",
    from: "GET /health/ready",
  },
  "health:ready:crash-loop": {
    says: "/health/ready is 503 while a supervised backend is in crash-loop",
    from: "GET /health/ready",
  },
  "health:ready:no-threshold": {
    says: "readiness does not wait for loading and has no server-count threshold",
    from: "GET /health/ready",
  },
  "health:supervision:minimal": {
    says: "backendSupervision counts total, connected, restarting, crashLoop, stopped",
    from: "Supervision summary",
  },
  "health:supervision:basic": {
    says: "basic lists supervised backends without process ids",
    from: "Supervision summary",
  },
  "health:supervision:full": { says: "full lists them with process ids", from: "Supervision summary" },
  "health:supervision:starting": {
    says: "during its first start a supervised server is starting in the entries of backendSupervision, and among the stopped in the counts at minimal",
    from: "choice",
    why: "the specification has four counts, and a first start must not hold readiness as a restart does",
  },
  "health:mcp:restarting": {
    says: "a restart leaves loading complete; a server that restarts counts as failed in the summary and is restarting in byState",
    from: "choice",
    why: "loading is the first start alone, and the server's own address answers 503 as for failed",
  },
  "health:mcp:consistent": {
    says: "status, headers, summary, byState and details of /health/mcp agree; loading is complete when no server is pending or loading",
    from: "choice",
    why: "a script may read any one of them",
  },
  "health:mcp:collection": {
    says: "/health/mcp reports loading, summary, servers and supervision",
    from: "GET /health/mcp",
  },
  "health:mcp:server": {
    says: "/health/mcp/:serverName is 503 for a backend restarting or in crash-loop",
    from: "GET /health/mcp",
  },
  "health:limit:rate": {
    says: "200 requests per 5 minutes per address over all health paths, then 429",
    from: "Limits",
  },
  "health:limit:headers": {
    says: "rate-limit headers are on every health response",
    from: "Limits",
  },

  // Configuration
  "config:file:default": {
    says: "~/.config/svc/mcp.json, or %APPDATA%\\svc\\mcp.json on Windows",
    from: "Configuration file",
  },
  "config:file:dir": {
    says: "--config-dir or SVC_CONFIG_DIR moves the directory and all in it",
    from: "Configuration file",
  },
  "config:file:config": { says: "--config selects a file directly; .env is beside it", from: "Configuration file" },
  "config:file:missing": {
    says: "a missing file is made, minimal, and said in one line",
    from: "choice",
    why: "the first run must work",
  },
  "config:server:last-valid": {
    says: "an entry that becomes invalid while it runs keeps its last valid form, with an issue; at the first start it is left out",
    from: "choice",
    why: "a slip in one value must not end a process and the calls on it",
  },
  "config:file:empty": {
    says: "an empty file is not JSON, at the first start too; a missing one is an empty configuration then",
    from: "choice",
    why: "a file that is being written, or that a full disk cut off, must not pass for a configuration",
  },
  "config:file:jsonc": {
    says: "comments, trailing commas and a byte-order mark are accepted",
    from: "choice",
    why: "people edit this file",
  },
  "config:file:broken": {
    says: "a document that is not JSON is refused whole, with line and column; the last good plan stays",
    from: "choice",
    why: "half a configuration is worse than the old one",
  },
  "config:key:unknown": {
    says: "an unknown key is a warning with its line and the nearest known one",
    from: "choice",
    why: "nothing that is typed is silently ignored",
  },
  "config:server:wrong": {
    says: "a wrong value leaves that server out with an issue; the others run",
    from: "choice",
    why: "one mistake must not take the rest down",
  },
  "config:server:type": { says: "type is stdio with a command, http with a url", from: "Server object" },
  "config:server:aliases": {
    says: "the spellings of other applications are read where they mean the same",
    from: "choice",
    why: "people bring their files",
  },
  "config:server:disabled": {
    says: "disabled true, or a string true, 1, yes, on, prevents the start",
    from: "Server object",
  },
  "config:server:name": {
    says: "two names with the same slug: the later server is not loaded",
    from: "choice",
    why: "a tool must lead to one server",
  },
  "config:overrides:blank": { says: "empty tool names and blank descriptions are rejected", from: "Errors" },
  "config:oauth:unknown": {
    says: "an unknown oauth field is an error that names the nearest",
    from: "choice",
    why: "a misspelt secret must not be ignored",
  },
  "config:backups": {
    says: "a backup precedes each edit by svc; the newest 20 are kept",
    from: "choice",
    why: "an undo for everything",
  },
  "process:killed": {
    says: "no server's process group outlives svc, not even one that svc was starting when it was killed",
    from: "choice",
    why: "a killed svc must leave nothing that holds ports, files and memory",
  },
  "process:idle": {
    says: "an idle svc gives the pages of its executable back to the system, on Linux",
    from: "choice",
    why: "most of an idle svc's resident memory is code that the start alone has used; getting it back takes no time that a call notices",
  },
  "serve:open-files": {
    says: "svc raises its limit of open files as far as it may, and warns at its start if that is less than its most sessions",
    from: "choice",
    why: "at the limit no new connection is answered, and nothing else says why",
  },
  "secrets:errors": {
    says: "no configured secret is in an error that svc makes, not even where a server repeats what it was sent",
    from: "choice",
    why: "whoever may call a server must not learn the credentials it is called with",
  },
  "config:edit:lock": {
    says: "two edits at once lose nothing; the lock of a killed process is free at once",
    from: "choice",
    why: "commands and assistants edit too",
  },
  "timeout:precedence:connection": {
    says: "connectionTimeout wins over timeout for connecting",
    from: "Server object",
  },
  "timeout:precedence:request": { says: "requestTimeout wins over timeout for requests", from: "Server object" },

  // serverDefaults
  "defaults:env:merge": {
    says: "env objects merge, the server's keys win; arrays are replaced",
    from: "serverDefaults 1",
  },
  "defaults:envFilter": {
    says: "envFilter entries of the server follow the defaults'; duplicates are kept once",
    from: "serverDefaults 2",
  },
  "defaults:replace": { says: "oauth and headers of the server replace the defaults'", from: "serverDefaults 3" },
  "defaults:missing": {
    says: "timeouts, inheritParentEnv and restart settings are inherited only when missing",
    from: "serverDefaults 4",
  },
  "defaults:stdio": {
    says: "default headers are ignored for stdio; default inheritParentEnv and envFilter for remote servers",
    from: "serverDefaults 5",
  },
  "defaults:restart": { says: "restart settings apply to stdio servers alone", from: "serverDefaults 6" },

  // Environment
  "env:substitute:forms": {
    says: "$NAME and ${NAME} are replaced; $$ is a dollar; ${NAME:-default} is supported",
    from: "Environment substitution",
  },
  "env:substitute:foreign": {
    says: "${env:NAME} is ${NAME}",
    from: "choice",
    why: "so it stands in the files of Cursor and VS Code, which are read without change",
  },
  "env:substitute:places": {
    says: "in command, args, cwd, env values, url, header values and oauth, and nowhere else",
    from: "Environment substitution",
  },
  "env:substitute:missing": {
    says: "a name set nowhere leaves the server out and is named",
    from: "choice",
    why: "an empty password is worse than none",
  },
  "env:dotenv:parent-wins": { says: "parent values win over .env values", from: "Environment substitution" },
  "env:dotenv:private": {
    says: ".env is never in svc's own environment, cannot set SVC_*, and reaches no backend that does not name it",
    from: "Environment substitution",
  },
  "env:dotenv:format": {
    says: "quotes, export, comments and several lines as dotenv has them",
    from: "Environment substitution",
  },
  "env:dotenv:broken": { says: "a malformed .env is refused; the last working environment stays", from: "Errors" },
  "env:dotenv:unreadable": {
    says: "a .env that is not UTF-8 or cannot be read is refused as .env; the last working environment stays",
    from: "Errors",
  },
  "env:child:safe": {
    says: "a child gets the safe set, what the filter lets in, and env",
    from: "choice",
    why: "without PATH and HOME nothing starts",
  },
  "env:child:inherit": {
    says: "inheritParentEnv without a filter lets everything in but SVC_*",
    from: "choice",
    why: "svc's own options are nobody's business",
  },
  "env:child:filter": {
    says: "patterns apply in order, the last match wins; !PATH removes one of the safe set",
    from: "choice",
    why: "as .gitignore does",
  },
  "env:child:filter-mode": {
    says: "inheritParentEnv false inherits nothing; true with only negative patterns all but those; omitted what envFilter includes",
    from: "choice",
    why: "what is written means what it says: false is off, and exclusions alone are from everything",
  },
  "env:child:own": {
    says: "a SVC_* variable reaches a child only by a pattern that begins with SVC_, or through env",
    from: "choice",
    why: "options of svc may be secret, and a pattern as wide as * does not mean them",
  },
  "env:child:idle-filter": {
    says: "an envFilter without effect is a warning",
    from: "choice",
    why: "a variable that is silently missing looks like a fault of the server",
  },
  "env:child:repeated": {
    says: "of equal patterns the first stays",
    from: "choice",
    why: "a server that only repeats a default must not let in what the default excludes",
  },
  "env:child:declared": { says: "no filter applies to declared variables", from: "Server object" },
  "env:child:array": {
    says: "NAME alone in an env array takes the value from the parent or .env",
    from: "choice",
    why: "as docker -e does",
  },

  // Supervision
  "supervise:exit": {
    says: "connected, the child exits: restarting; capabilities withdrawn; requests fail and are not replayed",
    from: "Supervised backend",
  },
  "supervise:back": {
    says: "restarting, the replacement initializes: connected; capabilities are published again",
    from: "Supervised backend",
  },
  "supervise:limit": {
    says: "maxRestarts consecutive attempts: crash-loop, until an operator, a reload or the end",
    from: "Supervised backend",
  },
  "supervise:attempt": {
    says: "each start that ends counts as an attempt, whatever era it tried; an unsupervised server is not started twice to end alike",
    from: "choice",
    why: "maxRestarts is a promise about processes",
  },
  "supervise:stable": {
    says: "five healthy minutes reset attempts and delay",
    from: "Supervised backend",
  },
  "supervise:restart": {
    says: "an operator's restart is at once, with a fresh budget",
    from: "Supervised backend",
  },
  "supervise:delay": {
    says: "delays are restartDelay times 1, 2, 4, 8, 16, 16 …",
    from: "Supervised backend",
  },
  "supervise:defaults": { says: "maxRestarts 5, 0 is unlimited; restartDelay 1000 ms", from: "Limits" },
  "supervise:remote": {
    says: "remote backends reconnect with the same delays and no limit, outside backendSupervision",
    from: "choice",
    why: "a network comes back",
  },
  "stderr:capture": {
    says: "omitted, pipe and overlapped are captured; inherit, ignore and a descriptor are passed on",
    from: "Server object",
  },
  "stderr:line": { says: "a captured line has at most 8 KiB", from: "Limits" },
  "stderr:unique": { says: "at most 20 different lines in 10 s", from: "Limits" },
  "stderr:repeats": { says: "repeats are summed up every 5 s", from: "Limits" },

  // Protocol
  "protocol:mode:legacy": { says: "legacy pins the legacy client", from: "Server object" },
  "protocol:mode:modern": { says: "2026-07-28 pins modern MCP without fallback", from: "Server object" },
  "protocol:mode:auto": {
    says: "auto tries modern first and falls back only on a positive sign of a legacy server",
    from: "Server object",
  },
  "protocol:mode:exit": {
    says: "a server that exits on the request of one era gets that of the other at the next attempt; an unsupervised one at a second start, unless it ended before it was asked",
    from: "choice",
    why: "the question must not cost the one start",
  },
  "protocol:own-era": {
    says: "in auto, each request to a remote server of both eras goes over a connection of its client's era, which is opened at the first such request; a pinned era, isolation and a legacy side without sessions keep one connection",
    from: "choice",
    why: "a server may do in one era what it does not do in the other; without a session it cannot receive the answers to its requests",
  },
  "protocol:own-era:refused": {
    says: "a server that refuses the other era is not asked again for an hour, unless it loses its session or its connection",
    from: "choice",
    why: "an attempt for each request would delay all of them, and a verdict for ever would outlive an upgrade",
  },
  "protocol:own-era:failure": {
    says: "a connection of the other era that fails is reported, leaves the server's state and health as they are, and is opened again at need; until then the first serves its clients",
    from: "choice",
    why: "a server that works must not be taken away by what only some clients would use",
  },
  "protocol:era:relearned": {
    says: "in auto, a server that refuses a ping as the other era does, or a ping and then a new connection of the same era, or opens no new session, is negotiated with anew",
    from: "choice",
    why: "a server that is upgraded in place would be asked in its old era for as long as svc runs",
  },
  "protocol:own-era:tasks": {
    says: "a task is asked over the connection that created it; equal ids of both connections are two tasks",
    from: "choice",
    why: "a server may count its tasks for each era",
  },
  "protocol:own-era:news": {
    says: "updates, list changes, log messages and progress reach each client once, over whichever connections are open",
    from: "choice",
    why: "a server notifies over both connections, or over the one that caused the change",
  },

  "protocol:answer:checked": {
    says: "a frame of a server reaches a client only as exactly one valid JSON-RPC message, with an object as the result; any other fails the call it names",
    from: "choice",
    why: "a server that could add a member or break the JSON would answer other servers' calls, or hang them",
  },
  "protocol:id": {
    says: "a request of a session, or of a client on a channel, whose id is in flight is refused; the first one goes on",
    from: "choice",
    why: "the second would take the first one's cancellation away",
  },
  "protocol:result-type": {
    says: "a result of a legacy server is complete for a modern client, whatever resultType it has; a modern server's resultType that is no string, or that the client has no capability for, fails the call",
    from: "choice",
    why: "a server that makes no state and no modern tasks must not put requests before a client by a member that its era does not know",
  },
  "protocol:legacy-words": {
    says: "resultType complete, the server's name in _meta and cache hints of a modern server's result are taken off for a legacy client",
    from: "choice",
    why: "its revision does not have them, and a client that checks results strictly would refuse them",
  },
  "protocol:whose": {
    says: "a question or a log line that may be one of several clients' is shown to none of them",
    from: "choice",
    why: "a shared process does not say whose it is, and a wrong guess shows one client's affairs to another",
  },
  "protocol:whose:caller": {
    says: "calls without a session are one client's if principal, rights, view, clientInfo and context are the same; without authentication only on a loopback address that no proxy stands before. Any of its calls that declares the capability carries a question, which is answered once; each gets the log lines of its level, once",
    from: "choice",
    why: "a 2026-era client over HTTP has no session, and its parallel calls must not refuse each other's questions; a credential is what the operator gave to one client, and an open loopback port trusts every program of the machine already",
  },
  "protocol:whose:gone": {
    says: "a cancelled call counts until the server has read the cancellation, and then for a moment if the server was seen to stop such calls; a client that was asked and is away makes room after a minute",
    from: "choice",
    why: "the first may ask yet, and neither must keep the others from being asked",
  },
  "protocol:cancelled": {
    says: "a cancelled request gets no answer; over HTTP its response ends as a stream without one",
    from: "choice",
    why: "receivers should not answer, and a response of JSON would have to be an answer",
  },
  "protocol:stopping": {
    says: "what waits for a server when svc stops, and what comes later, is told that svc is shutting down",
    from: "choice",
    why: "a client may drop a tool that it is told is unknown; it may try again what it is told is not there",
  },
  "protocol:task": {
    says: "a task is its session's, or its principal's where clients have no session, and its id leads back to its server",
    from: "choice",
    why: "clients share a server that cannot tell them apart",
  },
  "protocol:task:mark": {
    says: "the id of a task carries a mark that binds it to its owner, after a restart of svc too, and to the process of a shared stdio server, unless the id is a random UUID; an id that svc has not given to this client is unknown. Without authentication all modern clients are one principal, and the mark alone keeps others out",
    from: "choice",
    why: "a table of owners is lost with a restart and full one day; a server's own ids may be counted",
  },
  "protocol:task:list": {
    says: "tasks/list holds the tasks of the session that svc remembers: 10,000 of all clients, of which the client with most loses its oldest first, and 100 of a session over a restart; the others are found by their ids",
    from: "choice",
    why: "a server's own list holds the tasks of all clients, and a marked id cannot be looked for",
  },
  "protocol:task:listen": {
    says: "svc asks servers how a task goes on that a modern client listens to, and tells what is new",
    from: "choice",
    why: "servers need not say it of their own accord, and a client that listens need not ask",
  },
  "protocol:page": {
    says: "--pagination cuts lists into pages; a cursor goes on after its entry while the catalog changes",
    from: "choice",
    why: "a client in the middle of a list should not have to start again",
  },
  "protocol:stream": {
    says: "a stream that cannot be taken up starts anew",
    from: "choice",
    why: "a 404 would tell the client that its session is gone",
  },
  "protocol:stream:over": {
    says: "who comes back to a stream that it has seen the end of gets 204; a request whose stream is lost is answered with an error",
    from: "choice",
    why: "clients come back once a second for as long as they are not told that there is no more",
  },

  // Names and relay
  "name:tool": { says: "tools and prompts are <server>_svc_<name>", from: "Command-line and configuration interfaces" },
  "name:uri": {
    says: "resources are svc://<server>/<URI>, also inside results; ui:// stays ui://",
    from: "choice",
    why: "two servers may have the same URI",
  },
  "relay:unknown": {
    says: "at /servers/<name>/mcp members beside a list and in the result of the handshake that svc does not know, and notifications of clients that it does not know, pass on",
    from: "choice",
    why: "there svc stands for one server; what several servers state cannot be joined without knowing what it means",
  },
  "relay:streamed": {
    says: "texts, binary data and structured content of more than 64 KiB go to an HTTP client while they come from the server, and arrive as they were written",
    from: "choice",
    why: "the whole of a large result need not fit into memory, and its first byte need not wait for its last",
  },
  "relay:broken": {
    says: "an answer that has begun to pass and turns out invalid, too long, late or without an end is broken off, so that its client sees an error and never a shorter answer",
    from: "choice",
    why: "what was sent cannot be taken back",
  },
  "relay:numbers": {
    says: "numbers pass in both directions as they are written: 9007199254740993, 1.0, -0, 1e400; ids are the same where they are written the same",
    from: "choice",
    why: "clients and servers in other languages have numbers that a double cannot hold, and an id that changes is a call that never returns",
  },
  "tool:hidden": {
    says: "a disabled tool, by local or qualified name, is neither listed nor callable",
    from: "Command-line and configuration interfaces",
  },
  "tool:override": {
    says: "a description override changes the listing alone; removing it restores the upstream text",
    from: "Command-line and configuration interfaces",
  },
  "tool:override:names": {
    says: "toolDescriptionOverrides takes the names that disabledTools takes, is shown wherever a description is, and warns of a name that is of no tool",
    from: "choice",
    why: "a text that reaches no client must not pass for one that does",
  },
  "tool:overrides": {
    says: "toolOverrides replaces title, annotations, _meta[anthropic/searchHint] and _meta[anthropic/alwaysLoad] of a tool; alwaysLoad and searchHint of a server hold for its other tools; all else of _meta passes on",
    from: "choice",
    why: "clients that load tools on demand read these members, and few servers set them; a wrong annotation makes clients ask for confirmation, or not ask",
  },
  "context:warnings": {
    says: "svc config check, svc mcp status and mcp_status warn of descriptions over 2,048 characters, tools without a description, names over 64 characters and more than 100 tools in all",
    from: "choice",
    why: "clients cut, refuse and drop these without a word, and the person sees only that a tool is not used",
  },
  "context:characters": {
    says: "svc mcp status, mcp_status and /metrics count the characters that each server puts into the context of a client",
    from: "choice",
    why: "what a server costs must be visible where its state is",
  },
  "context:tokens": {
    says: "svc tokens counts the tokens of a running svc's tools (name, description, input schema) and instructions, of all servers or one, of all clients or a preset's, listed whole and in a lazy view, the most expensive first",
    from: "choice",
    why: "a person can only save what is visible, and characters say little to those who pay for tokens",
  },
  "shell:inspect": {
    says: "svc inspect shows what the servers of a project offer in numbers, what one offers with hidden and held tools, or one tool: both descriptions, hints, parameters and result; a tool is named server/tool or server_svc_tool, and an unknown name is answered with the nearest",
    from: "choice",
    why: "a person must be able to see what a model is given, and what is kept from it",
  },
  "shell:search": {
    says: "svc search finds tools as a lazy view does, with scores on request, and says how much was searched if nothing fits",
    from: "choice",
    why: "a person must be able to see why a model finds a tool, or does not",
  },
  "shell:instructions": {
    says: "svc instructions shows what clients are told about all servers, or the whole instructions of one",
    from: "choice",
    why: "instructions are in the context of every client, and no other command shows them",
  },
  "shell:run": {
    says: "svc run calls a tool with key=value arguments typed by its input schema, key:=JSON, or --args; texts go to stdout as they are, other content by its type or to --output, the whole result under --json; progress and log messages to stderr",
    from: "choice",
    why: "a script must be able to use a tool, and a person to try one, without writing a client",
  },
  "shell:run:exit": {
    says: "svc run exits with 1 if the tool reports an error, 64 for an unknown tool or wrong arguments, 69 if its server is down",
    from: "choice",
    why: "a script must know a failed tool from a typing error and from a server that is down",
  },
  "shell:run:cancel": {
    says: "--timeout and Ctrl-C cancel the call of svc run, which exits with 69 and 130",
    from: "choice",
    why: "a call that nobody waits for must not go on",
  },
  "shell:run:elicitation": {
    says: "svc run asks the person at a terminal what a server asks, and cancels the question elsewhere with a message",
    from: "choice",
    why: "client: Elicitation: a person sees who asks and may decline; a script must not hang",
  },
  "shell:run:output": {
    says: "svc run ends without an error if the reader of its output is gone, and with 74 if the output cannot be written",
    from: "choice",
    why: "head closes the pipe early, and a cut file must not pass for a whole one",
  },
  "shell:project": {
    says: "svc inspect, search, instructions and run see the servers of the project that they run in, as svc proxy does",
    from: "choice",
    why: "the control socket is trusted, and a template has no instance outside a project",
  },
  "names:shortened": {
    says: "with --max-tool-name, a longer <server>_svc_<name> of a tool or prompt is listed cut, first the server's part, with a hash of the whole at its end; the whole name works too, and settings use it",
    from: "choice",
    why: "most models refuse names over 64 characters, with all other tools; a name that depended on the other servers would change when one joins",
  },
  "instructions:budget": {
    says: "the aggregate's instructions have at most --instructions-budget characters (2,048): how tools are named, a line per server with its purpose, then the servers' own instructions in equal shares",
    from: "choice",
    why: "clients put instructions into every context and cut long ones without a word, so the essential must come first",
  },
  "instructions:unavailable": {
    says: "the aggregate's instructions name the servers of the scope that are not connected, with their states",
    from: "choice",
    why: "a model that misses a tool must know that it is missing now, not that it does not exist",
  },
  "instructions:whole": {
    says: "the resource svc:instructions/<server> has a server's whole instructions for clients whose scope includes it; no list has it",
    from: "choice",
    why: "what was cut must be readable, and must cost nothing until it is read",
  },
  "tool:renamed": {
    says: "renaming a server makes the qualified names in its disabledTools, toolDescriptionOverrides and toolOverrides local ones",
    from: "choice",
    why: "a tool that is hidden must not come back because its server has another name",
  },
  "tool:disabled": {
    says: "a call by the name of a tool that disabledTools hides is refused with -32602: Tool NAME is disabled",
    from: "choice",
    why: "a model that reads that a tool is disabled does not look for another spelling of it",
  },
  "results:off": {
    says: "without a budget results pass as they are, and read_result is not offered",
    from: "choice",
    why: "a feature that is off costs nothing",
  },
  "results:budget": {
    says: "the first of preset, token, server and --result-budget that states a budget decides; svc run gets results whole",
    from: "choice",
    why: "the client's context is what the budget protects, so what is closest to the client wins",
  },
  "results:cut": {
    says: "a result above its budget is stored and answered with its beginning and end, its shape, what is left out, and a resource_link with size and SHA-256, in less than the budget",
    from: "choice",
    why: "clients cut large results without a word, and svc is where every result passes",
  },
  "results:stream": {
    says: "a result above its budget that comes in pieces is stored while it comes, and is never whole in memory",
    from: "choice",
    why: "one call must not take the memory of all",
  },
  "results:error": {
    says: "a large result with isError keeps it, and the beginning of its message",
    from: "choice",
    why: "a model must know that the call failed, and why",
  },
  "results:structured": {
    says: "structured content that repeats a text is not sent; what an output schema promises is shortened and stays valid, or the result passes whole and the log says so once",
    from: "choice",
    why: "clients refuse an answer that does not fit its schema",
  },
  "results:read": {
    says: "read_result reads lines, a range of bytes, the values at a JSONPath and the matches of a regular expression, each answer within the budget",
    from: "choice",
    why: "a model needs a part of the whole, and must not be able to ask for too much",
  },
  "results:read-time": {
    says: "a long grep or path lets other requests pass, and ends after 30 s with what it found or how to narrow it",
    from: "choice",
    why: "a model chooses the expression, and must not stop svc for all others",
  },
  "results:reload": {
    says: "clients are notified that their tools have changed when a reload adds or removes read_result",
    from: "choice",
    why: "a budget without the tool that reads the rest loses it",
  },
  "results:exact": {
    says: "ranges of read_result and of resources/read give exactly the stored bytes, with the SHA-256 of the link",
    from: "choice",
    why: "a result that svc changes is worth nothing",
  },
  "results:lazy": {
    says: "a lazy view lists read_result, and runs it through call_tool too",
    from: "choice",
    why: "a client of a lazy view has large results as well",
  },
  "results:owner": {
    says: "a stored result does not exist for another session and another principal",
    from: "choice",
    why: "an id in a transcript must not open a result",
  },
  "results:disk": {
    says: "results are sealed on disk, survive a restart of svc, and are in no log",
    from: "choice",
    why: "what tools return may be as secret as the credentials that they use",
  },
  "results:killed": {
    says: "a result whose writing was cut off is never seen, and its file is removed",
    from: "choice",
    why: "a process may be killed at any moment",
  },
  "results:ttl": {
    says: "a result ends after --result-ttl, and the oldest ones when all take more than 1 GiB",
    from: "choice",
    why: "nobody deletes them",
  },
  "results:sizes": {
    says: "svc tokens --results, svc mcp status NAME and /metrics show the median, the 99th percentile and the cut ones of each tool's results",
    from: "choice",
    why: "whoever sets a budget must know which tools need one",
  },
  "results:stated": {
    says: "a tool without a budget that had a result of more than 100 kB states anthropic/maxResultSizeChars in its definition",
    from: "choice",
    why: "clients that know it then take the result whole",
  },
  "lazy:list": {
    says: "with tools=search in the address, in the preset, on the token or as --tools, tools/list holds search_tools, describe_tool, call_tool and call_read_tool, in under 500 tokens; the first of them that states it decides",
    from: "choice",
    why: "thousands of tools cost a context window more than the conversation; a list must not depend on the connection",
  },
  "lazy:pinned": {
    says: "tools that alwaysVisible of their server or of the preset names stay in the list of a lazy view",
    from: "choice",
    why: "a tool that every conversation uses should not be searched for",
  },
  "lazy:pinned:names": {
    says: "a pinned tool that has the name of one of svc's search tools is not listed at its server's address; call_tool runs it",
    from: "choice",
    why: "a list has each name once, and a call by this name must not depend on the server",
  },
  "lazy:answer": {
    says: "an answer of the search tools has at most 40,000 characters, describes a name once, and says what it leaves out and how to get it",
    from: "choice",
    why: "clients cut or refuse longer results, and one server's schemas must not fill a context window",
  },
  "lazy:search": {
    says: "search_tools answers one line a tool in at most 60 tokens, best first, under a heading wherever the server changes, with its instructions once, 8 by default; without a hit it says what was searched and which servers there are",
    from: "choice",
    why: "a model that is told nothing was found guesses names",
  },
  "lazy:scope": {
    says: "searches, descriptions, similar names and numbers show nothing beyond the client's view",
    from: "choice",
    why: "a search must not tell one client what another has",
  },
  "lazy:internal-tools": {
    says: "in a lazy view the tools of --internal-tools are found by the search and not listed",
    from: "choice",
    why: "they are used seldom",
  },
  "lazy:describe": {
    says: "describe_tool, and get_tool_details unlisted, answer whole definitions with overridden descriptions",
    from: "choice",
    why: "a signature on one line does not hold every schema",
  },
  "lazy:unlisted": {
    says: "in a lazy view tool_list, tool_schema and tool_invoke can be called unlisted",
    from: "choice",
    why: "clients of the described system know them",
  },
  "lazy:call": {
    says: "a call of call_tool is served as the direct call inside it: progress, cancellation, elicitation, tasks, structuredContent and errors are the same in both eras",
    from: "choice",
    why: "a second path of calls would differ from the first",
  },
  "lazy:call:tolerant": {
    says: "call_tool takes arguments as an object or as JSON text, under args, parameters, params or input too, beside the name, the name under tool_name, toolName or tool, or among the arguments; it drops none, and refuses two values of one",
    from: "choice",
    why: "that is what models write",
  },
  "lazy:call:server": {
    says: "a server named beside the tool is the tool's server: svc runs no tool of another one",
    from: "choice",
    why: "a call that runs on another server than the one it names does harm",
  },
  "lazy:call:arguments": {
    says: "svc refuses no arguments; if a call through call_tool fails and its arguments do not fit the schema, the error holds the parameters",
    from: "choice",
    why: "servers are more lenient than their schemas, and a model that has not seen the schema needs it then",
  },
  "lazy:call:read": {
    says: "call_read_tool refuses a tool that is not annotated read-only",
    from: "choice",
    why: "people let clients run tools that are annotated read-only without asking",
  },
  "lazy:unknown": {
    says: "in a lazy view an unknown name is answered with the three nearest, or with the reason if its server is not connected or svc keeps it back, through call_tool as an isError result",
    from: "choice",
    why: "a model corrects itself by what it reads in a result",
  },
  "tool:unknown": {
    says: "an unknown tool is -32602 and names the nearest",
    from: "choice",
    why: "a slip of the finger is common",
  },
  "tool:unlisted": {
    says: "at /servers/<name>/mcp a tool or prompt that the server does not list is relayed to it, unless the server has disabledTools or strict pinning, or its own process for the session",
    from: "choice",
    why: "a server may know names that it lists for nobody, and its own error says more; where svc keeps tools from clients, another spelling of one must not lead to it",
  },
  "tool:server-down": {
    says: "a call to a server that is not there is an error that names it",
    from: "choice",
    why: "the model must know whom to blame",
  },

  // Reload
  "reload:file": {
    says: "changes of the file apply without a restart of svc",
    from: "Command-line and configuration interfaces",
  },
  "reload:dotenv": {
    says: "a change of .env restarts exactly the servers whose resolved values moved",
    from: "Command-line and configuration interfaces",
  },
  "reload:untouched": {
    says: "servers whose launch did not change are not restarted",
    from: "Command-line and configuration interfaces",
  },
  "reload:metadata": {
    says: "tags, hidden tools and descriptions restart nothing and reach clients as list_changed",
    from: "Events",
  },

  // Inbound
  "inbound:listen": {
    says: "127.0.0.1:3050 by default; anything else without authentication needs --allow-unauthenticated",
    from: "choice",
    why: "secure by default",
  },
  "inbound:origin": {
    says: "foreign Host and Origin are refused",
    from: "choice",
    why: "a page must not reach a local instance",
  },
  "inbound:order": {
    says: "CORS, Host and Origin, authentication and limits are checked in this order, before anything answers",
    from: "choice",
    why: "a refused request learns nothing, costs nothing and is answered the same whatever it asked for",
  },
  "inbound:errors": {
    says: "errors are JSON-RPC errors on MCP paths and {error} on all others, whichever check refuses",
    from: "choice",
    why: "a probe of /health does not speak JSON-RPC, and an MCP client speaks nothing else",
  },
  "inbound:rest": {
    says: "POST /mcp with {tool, arguments} runs the tool; a body with either member, and neither jsonrpc nor method, is such a call, valid or not",
    from: "Internal tool invocation",
  },
  "inbound:query": {
    says: "tags, tag-filter, preset and app select on /mcp",
    from: "choice",
    why: "one URL, many views",
  },
  "auth:open": { says: "/health, /health/live and /health/ready need no authentication", from: "Authentication 1" },
  "auth:enabled": {
    says: "authEnabled reports whether authentication is on",
    from: "Authentication 2",
  },
  "auth:paths": {
    says: "with --auth everything but /health, /health/live and /health/ready needs a token, /health/mcp but at minimal",
    from: "choice",
    why: "load balancers have no token, and what tells names is not for everybody",
  },
  "auth:tags": {
    says: "a token with tags shows the servers with one of them, and none of svc's own tools",
    from: "choice",
    why: "a team shares one instance, not every server in it",
  },
  "auth:session": {
    says: "a session belongs to its principal; to others it is unknown",
    from: "choice",
    why: "an id that leaks must be worth nothing",
  },
  "auth:identity": {
    says: "sessions, streams and calls that wait compare the kind of holder, its name, its issuer and what its token opens",
    from: "choice",
    why: "a token that is weaker, or of a client that is spelled like a user, must not act with the rights of the one that opened them",
  },
  "auth:oauth": {
    says: "tokens of --auth-issuer are checked for signature, issuer, audience, time and scopes",
    from: "choice",
    why: "a resource server that leaves one of them out lets others' tokens in",
  },
  "auth:token-type": {
    says: "of an issuer's tokens only access tokens are accepted, of exactly this issuer: typ at+jwt, or JWT or none without claims of another kind; a token that is bound to a key is no bearer token",
    from: "choice",
    why: "an issuer signs ID tokens with the same keys, and hands them to parties that must not call svc; many issuers type no access tokens",
  },
  "auth:scopes": {
    says: "an issuer's token opens servers without tags and those whose tag:NAME it has, svc:admin all; --auth-scopes off opens all",
    from: "choice",
    why: "a client chooses which scopes it asks for: leaving one out must not show more",
  },
  "auth:awaiting": { says: "a backend that wants OAuth is awaiting_oauth", from: "Authentication 3" },
  "oauth:login": {
    says: "a person follows the address once, and the server connects without a restart of anything else",
    from: "choice",
    why: "the text says that a server may need OAuth, and not how it gets it",
  },
  "oauth:refresh": {
    says: "tokens are renewed silently, one renewal at a time; what says nothing of a token takes none away",
    from: "choice",
    why: "a server that is down for a minute must not cost its users a login",
  },
  "oauth:terminal": {
    says: "a token that is refused when it is new ends the asking, and the reason is said",
    from: "choice",
    why: "asking for the same again would go in a circle",
  },
  "oauth:dpop": {
    says: "tokens are bound to a key that is kept with them if the server asks for it or takes them, or dpopBoundAccessTokens demands it; each request has a new proof with the nonce that was given last",
    from: "choice",
    why: "a bound token is worth nothing to others; a server that does not say that it takes one would refuse it",
  },
  "oauth:workload": {
    says: "jwt-bearer sends the assertion of a file or variable, read for each token, to the authorization server that it is for, and nowhere else; a refusal is reported and not repeated",
    from: "choice",
    why: "platforms rotate their tokens, and a remote server could name an authorization server that collects them",
  },
  "oauth:enterprise": {
    says: "token-exchange turns the user's ID token into a grant for the server at the issuer of that token, and redeems the grant at the server's authorization server",
    from: "choice",
    why: "the enterprise's identity provider decides which servers its users may use, without a sign-in for each",
  },
  "secrets:file": {
    says: "tokens are in a file of mode 0600 in a folder of mode 0700",
    from: "choice",
    why: "the text does not say where they are kept",
  },
  "secrets:sealed": {
    says: "with SVC_STATE_KEY that file is sealed",
    from: "choice",
    why: "a disk may be read where a process cannot",
  },
  "secrets:keychain": {
    says: "where the system has a keychain it holds the key of the file",
    from: "choice",
    why: "what a keychain holds is small on Windows: the key fits, tokens may not",
  },
  "secrets:refused": {
    says: "a file or folder of secrets that others can read, or a symbolic link, is refused with what to do",
    from: "choice",
    why: "a secret that others may have read or written is none",
  },

  // Templates
  "template:render": {
    says: "strings of mcpTemplates are rendered with if/else, eq and and",
    from: "Templates",
  },
  "template:namespaces": {
    says: "project, user, transport and context are the namespaces",
    from: "Templates",
  },
  "template:data": {
    says: "an expression reaches the context alone: nothing is called, and there is no lookup, loop, partial or decorator",
    from: "choice",
    why: "a template decides which command runs; what it can do must be readable at a glance",
  },
  "template:missing": {
    says: "a known value that is not set renders as empty, and inside of arguments it is false; an unknown name is an error, as is a name below project.custom that no .svcrc sets",
    from: "choice",
    why: "a project without .svcrc or git gets its servers too, and a misspelled name is seen",
  },
  "template:environment": {
    says: "a $ of a context stays a $; references count where they stand whole in the template's own text",
    from: "choice",
    why: "nobody's context may read the environment of svc",
  },
  "template:key": {
    says: "equal renderings have one id, and an edit of what no expression touches keeps it",
    from: "choice",
    why: "hidden tools and tags of a template must change without a restart",
  },
  "svcrc:search": {
    says: ".svcrc is looked for up to the repository's root or home, and below neither in the directory alone",
    from: "choice",
    why: "a file in a shared folder such as /tmp must not speak for the projects below it",
  },
  "svcrc:wrong": {
    says: "a .svcrc that cannot be understood is told of, and what it said last holds; at first it counts as empty",
    from: "choice",
    why: "a client must not lose its servers to a comma, nor see more of them",
  },
  "proxy:start:failed": {
    says: "if svc does not start, svc proxy --start shows the reason and fails the requests that wait for it",
    from: "choice",
    why: "a client shows its user the error of a request, and not a log file",
  },
  "proxy:start": {
    says: "--start starts svc where none answers, and again where it was killed; one that was stopped stays stopped",
    from: "choice",
    why: "what a killed svc left behind must not pass for one that runs, and who stops it has a reason",
  },
  "filter:exact": {
    says: "tags are compared exactly; and, or, not, brackets and quotes make an expression",
    from: "choice",
    why: "one rule without surprises where access may depend on it",
  },
  "audit:log": {
    says: "--audit-log writes a line for each call and change: who, what, how it ended; arguments only where asked for",
    from: "choice",
    why: "a shared instance must be able to say who did what",
  },
  "auth:refused": {
    says: "each request without a valid token is a line in the log and the audit log, with address and reason; a flood is counted",
    from: "choice",
    why: "attempts must be seen, by fail2ban too, and must not push everything else out of the logs",
  },
  "auth:token:trace": {
    says: "while svc runs, each token that is created, changed or revoked is a line in the audit log, and calls have the token's name beside its id",
    from: "choice",
    why: "an operator knows people by name, and an editor changes the file as well as a command",
  },
  "config:gone": {
    says: "logs, sessions and eras of a configuration whose file is gone, unused for a week, are removed when svc starts in the same directory",
    from: "choice",
    why: "the digests in their names lead to no configuration; a drive that is missing for a day must not cost its logs",
  },
  "auth:token:warn": {
    says: "svc auth token create warns of a token without a name, without tags or expiry, and of tags that no server has",
    from: "choice",
    why: "such a token works, so that nobody notices what was not meant",
  },
  "auth:token:name": {
    says: "names of tokens are unique; --replace revokes the token that has the name",
    from: "choice",
    why: "a name in the audit log, and in revoke, must mean one token",
  },
  "isolation:idle": {
    says: 'a process of isolation "session" ends after idleTimeout (10 minutes) without a call; the session\'s next call starts another, and says that what the old one held is lost',
    from: "choice",
    why: "most clients never end their sessions, and what they leave behind fills the machine",
  },
  "isolation:bound": {
    says: "at most maxProcesses (50) of a server's processes are sessions' own: the one unused for longest makes room, one in use never",
    from: "choice",
    why: "a client that opens sessions in a loop must not fill the machine, nor end what others are using",
  },
  "limit:rate": {
    says: "rateLimit and --session-rate-limit bound the calls of a minute, and the refusal says how long to wait",
    from: "choice",
    why: "one client's loop must not take a server from the others",
  },
  "tool:diff": {
    says: "svc shows what has changed in the definition of a tool since it was first seen or approved, in REST and by svc mcp tools approve, and approves only what was shown",
    from: "choice",
    why: "an approval of a change that nobody has seen protects nobody",
  },
  "tool:pinning": {
    says: "a tool that has changed since it was first seen is told, and with toolPinning strict hidden until approved",
    from: "choice",
    why: "a server that turns bad after it was trusted is seen before it is used",
  },
  "template:precedence": { says: "a template wins over a server of the same name", from: "Templates" },
  "template:failure": {
    says: "strict refuses the reload, graceful leaves the template out",
    from: "Templates",
  },
  "template:failure:first": {
    says: "the first load checks all templates, and strict refuses it, with validateOnReload false too",
    from: "choice",
    why: "the setting is about reloads; a start must not hide what a later reload would refuse",
  },
  "template:fixed": {
    says: "a template that names no project and no client runs as a server does, under its name, and is offered to every client",
    from: "choice",
    why: "nothing that a client could choose decides what it runs",
  },
  "template:project": {
    says: "text of a context begins no option, is no program text (sh -c, node -e …) and no program, package or script of a launcher (npx, docker run …), stands in no variable of options, code or search paths, begins no working directory and no host, unless the template says {{raw …}}",
    from: "choice",
    why: "a cloned repository (.svcrc, branch, folder, git user) must not choose what runs",
  },
  "template:instances": {
    says: "instances are supervised on their own and keep identity and members",
    from: "Supervised backend",
  },

  // Internal tools and commands
  "tools:discovery": {
    says: "mcp_search, mcp_registry_status, mcp_registry_info, mcp_registry_list, mcp_info",
    from: "Internal tools",
  },
  "tools:installation": {
    says: "mcp_install, mcp_uninstall, mcp_update",
    from: "Internal tools",
  },
  "tools:install:config": {
    says: "mcp_install with a command or a url in config installs that, asks no registry, and never joins it with a registry's entry",
    from: "choice",
    why: "config is the only shown argument for a custom source, and a person agrees to one source",
  },
  "tools:codes": {
    says: "a failure of an internal tool has one of the codes not_found, invalid_argument, conflict, confirmation_required, declined, registry_unavailable, rolled_back and internal, which its output schema lists; without a person to ask, what needs one is confirmation_required",
    from: "choice",
    why: "an assistant decides by the code what to do next",
  },
  "tools:changes": {
    says: "mcp_edit lists every written change: the new name, effective values, and values without an effect; the status of an answer is that of mcp_status",
    from: "choice",
    why: "an assistant that is told of no change tries again, and two words for one state contradict",
  },
  "tools:management": {
    says: "mcp_enable, mcp_disable, mcp_list, mcp_status, mcp_reload, mcp_edit",
    from: "Internal tools",
  },
  "tools:confirm": {
    says: "what would run something new, or something that was disabled, is put to a person with the exact command; where nobody can be asked it is refused (confirmation_required) unless --confirm-installs is off",
    from: "choice",
    why: "an assistant must not choose alone what runs",
  },
  "tools:confirm-edits": {
    says: "an edit of descriptions, hidden tools, tags or names, enabling, disabling and uninstalling is put to a person like an installation, or needs --confirm-edits off",
    from: "choice",
    why: "what one assistant writes there every client's model reads",
  },
  "tools:shown": {
    says: "a person who is asked sees command, arguments, environment, headers, folder, file and what serverDefaults adds, uncut; hidden is only what they typed at a terminal or keep in mcp.json, never what an assistant passed",
    from: "choice",
    why: "code hides in what a registry, a file or an assistant calls secret, and behind what is cut off",
  },
  "tools:agreed": {
    says: "what a person was shown at a terminal is what an installation or an update runs: if the registry, the values or mcp.json give another server meanwhile, nothing is changed (conflict)",
    from: "choice",
    why: "the run asks the registry again, which may answer each time anew",
  },
  "tools:form": {
    says: "the form that asks a person has no default, and only confirm: true agrees",
    from: "choice",
    why: "a client that fills in defaults would agree for the person",
  },
  "tools:zero": {
    says: "hiding the last tool that a server offers needs confirmation: a prompt or --yes, or confirmZeroTools",
    from: "choice",
    why: "a server without tools looks broken; nobody does that by intent in passing",
  },
  "connect:formats": {
    says: "svc connect writes each client's configuration in the form that the client documents, over HTTP where it takes an address and as `svc proxy` where it does not, and leaves all other bytes as they are",
    from: "choice",
    why: "the file belongs to the client and its user; an entry that the client does not understand helps nobody",
  },
  "connect:shown": {
    says: "svc connect and svc disconnect show the change without secrets and ask for consent; --yes does not ask, --dry-run changes nothing",
    from: "choice",
    why: "they write files of other programs",
  },
  "connect:undo": {
    says: "svc connect keeps the file as it was; --undo restores it byte for byte, or only svc's changes if the file has been edited elsewhere, and is refused if those have been edited",
    from: "choice",
    why: "an undo must not take back what somebody else has done since",
  },
  "connect:untouched": {
    says: "a client's file that is malformed is left alone with line and column, one in a form that cannot be edited safely with the entry to change by hand, and an entry of another server keeps its name",
    from: "choice",
    why: "svc cannot know what is meant there",
  },
  "connect:replace": {
    says: "svc connect --replace removes the client's entries that are equal, references resolved, to a server that svc serves to it, and no others",
    from: "choice",
    why: "each server would run twice, and each tool be listed twice",
  },
  "connect:token": {
    says: "where svc requires a token, svc connect creates one for the client, named after it, and never writes it into a project's file; it is revoked with the entry",
    from: "choice",
    why: "each client can be cut off alone, and a project's file is shared",
  },
  "connect:own-command": {
    says: "svc connect uses the client's own command if one is found, has no token to pass, and has neither comments nor formatting to lose; the file decides whether it has worked",
    from: "choice",
    why: "the command takes the client's own locks, but rewrites the file, and its arguments can be read by others",
  },
  "import:scopes": {
    says: "svc config import finds the servers of all projects in Claude Code's own file",
    from: "choice",
    why: "`claude mcp add` writes there unless told otherwise",
  },
  "import:same": {
    says: "two entries are the same server if they run the same command, or reach the same address, with the same settings, references resolved",
    from: "choice",
    why: "a name says nothing: clients name the same server differently and different servers alike",
  },
  "config:self": {
    says: "a server that is this svc itself is refused with an issue that names it: its address in any spelling, a bridge to it, and svc proxy or svc serve --transport stdio for the same configuration",
    from: "choice",
    why: "svc would serve its own tools a second time, and wait at the start for itself",
  },
  "import:names": {
    says: "svc config import leaves out a server that svc has already and says under which name, and gives another server of a taken name a number",
    from: "choice",
    why: "clients use the same few names for different servers, and the same server stands in several clients",
  },
  "import:self": {
    says: "svc config import never imports svc itself: by its address, by an svc that answers at the address, or by its command",
    from: "choice",
    why: "svc would serve its own tools a second time",
  },
  "import:secrets": {
    says: "svc config import moves secrets to .env, and asks for the values of ${input:…}; without a terminal it refers to a variable and names it",
    from: "choice",
    why: "mcp.json is shared and shown, and a prompt of VS Code means nothing to a server",
  },
  "import:offer": {
    says: "svc config import ends by naming the commands that let each client it has read use svc in place of the imported servers",
    from: "choice",
    why: "otherwise each server runs twice",
  },
  "import:project": {
    says: "svc config import reads the working directory's files only with --project, says whose they are, and shows everything that would run before it asks",
    from: "choice",
    why: "a cloned repository must not bring servers by being where a command is typed",
  },
  "tools:rollback": {
    says: "an installation or update whose server does not connect leaves mcp.json, .env and backups byte for byte",
    from: "choice",
    why: "an undo for everything",
  },
  "tools:bundles": {
    says: "a bundle (MCPB) is installed only where its registry's entry has its sha256 and that is what came; none of its files leaves its folder, and they come and go with the server",
    from: "choice",
    why: "it is a program from anywhere, and nobody looks after its files but svc",
  },
  "tools:secrets": {
    says: "secrets of an installed server are in .env, mcp.json refers to them, and two servers' never mix",
    from: "choice",
    why: "mcp.json is shared and shown",
  },
  "registry:stale": {
    says: "a registry that cannot be reached is registry_unavailable, or what was known of it with its age",
    from: "choice",
    why: "down is not empty",
  },
  "cli:tools": {
    says: "svc mcp tools list, disable and enable edit the file",
    from: "Command-line and configuration interfaces",
  },
  "cli:tools:offline": {
    says: "svc mcp tools list shows hidden and seen tools without a running svc, and hidden names that are of no tool as gone",
    from: "choice",
    why: "what the file says needs no running server, and a name that hides nothing must be seen",
  },
  "cli:status": {
    says: "svc mcp status --verbose shows the effective merged configuration",
    from: "Command-line and configuration interfaces",
  },
  "cli:status:typed": {
    says: "in svc mcp status --verbose --json and in mcp_status, effective values keep their types, with built-in defaults, the section of each value, and a mark on those without an effect",
    from: "choice",
    why: "a script compares numbers and lists, and a value without an effect is a mistake to see",
  },
  "config:timeout:defaults": {
    says: "a server's timeout that loses to requestTimeout or connectionTimeout of serverDefaults is warned of",
    from: "choice",
    why: "rule 4 inherits what the server does not have, although it meant to set it",
  },
  "cli:health": {
    says: "svc health names the servers in their first start, says starting instead of unhealthy, and exits with 75 instead of 69, if their connecting would change that; it shows the issues of the configuration, and an svc without servers as running; --wait names the servers that it does not wait for",
    from: "choice",
    why: "a person must not take a start for a failure, nor a refused file for health",
  },
  "cli:health:all": {
    says: "svc health --all exits with 69 unless every enabled server is healthy, and with 75 while one is in its first start",
    from: "choice",
    why: "a pipeline that needs all of its servers must not go on without one; health alone tolerates some",
  },
  "cli:health:own": {
    says: "svc health answers for the svc of its configuration, or for the one that --url or SVC_PORT names",
    from: "choice",
    why: "another svc at the default port says nothing of this one",
  },
  "cli:config:missing": {
    says: "a file that --config names and that does not exist is an error (78); serve --init creates it, and only the default file is created otherwise",
    from: "choice",
    why: "a slip must not serve an empty configuration in place of the one that was meant",
  },
  "cli:add": {
    says: "svc mcp add takes a program with or without --, variables before it, a URL, and the flags of other clients' mcp add",
    from: "choice",
    why: "people paste lines from the README of a server",
  },
  "cli:add:address": {
    says: "a host after --url gets https, this machine http; what may be a program or an address is refused with both spellings",
    from: "choice",
    why: "a wrong guess would run a program, or send a credential without TLS",
  },
  "import:secrets-hidden": {
    says: "svc config import hides secrets of the user's own files of clients in its question, and shows those of a project's or another file",
    from: "choice",
    why: "a terminal is recorded and shared; a value that a repository fixes may be code",
  },
  "connect:external": {
    says: "svc connect writes the address of the running svc under its --external-url",
    from: "choice",
    why: "the client may reach it through the proxy alone",
  },
  "tools:several": {
    says: "svc mcp tools list without SERVER lists the tools of all servers; disable and enable take several tools of a server, in one edit",
    from: "choice",
    why: "svc tools without an argument means all, and each edit makes clients read the list of tools again",
  },
  "cli:config:restore": {
    says: "svc config restore at a terminal shows the difference without secrets and asks, unless --yes is given; without a terminal it restores at once",
    from: "choice",
    why: "without an argument a person does not see which backup replaces the file",
  },
  "cli:add:flags": {
    says: "a flag of svc behind a program that no -- marks is passed to the program with a note; --config and --config-dir are refused there",
    from: "choice",
    why: "the server would be written to another file than the person means",
  },
  "cli:add:literal": {
    says: "a $ in what is typed at svc mcp add, add-json and the flags of edit is text, except in ${NAME}, and $NAME as the whole value; notes say which",
    from: "choice",
    why: "a password with a $ must reach its server unchanged, and a pasted configuration may refer to variables",
  },
  "cli:add:json": {
    says: "svc mcp add-json takes one server, a whole configuration of svc or another application, or stdin",
    from: "choice",
    why: "servers are published as JSON",
  },
  "cli:edit:flags": {
    says: "svc mcp edit takes the flags of add, a new command after --, and flags that remove a variable or a header",
    from: "choice",
    why: "a person who added a server by flags tries the same flags first",
  },
  "cli:aliases": {
    says: "words of other programs with one meaning here are read as svc's own; others are answered with the right line",
    from: "choice",
    why: "a mistake must cost seconds",
  },
  "cli:writes": {
    says: "a command that changes servers, tools, presets or tokens returns when the running svc has applied the change",
    from: "choice",
    why: "the next command, or the next request of a client, must not see the old state",
  },
  "cli:writes:outcome": {
    says: "a command that adds, changes, enables or restarts a server waits until it has connected or failed, at most --timeout, says which, and exits with 0",
    from: "choice",
    why: "the edit is made whatever becomes of the server, which may need another edit or a sign-in",
  },
  "cli:writes:refused": {
    says: "an edit that every reload would refuse is not written; one that only the running svc refuses stays, and the command exits with 78",
    from: "choice",
    why: "nothing of what a person wrote is taken away, and a script must notice",
  },
  "cli:writes:no-wait": {
    says: "with --no-wait, without a running svc, or with one that has --no-reload, a command returns when the file is written",
    from: "choice",
    why: "an svc that was told not to follow its files must not be made to",
  },
  "cli:restart": {
    says: "svc mcp restart restarts a running backend at once",
    from: "Command-line and configuration interfaces",
  },
  "cli:mistake": {
    says: "an unknown flag or command is one line with the nearest known one and exit 64",
    from: "choice",
    why: "a mistake must cost seconds",
  },
  "cli:port": {
    says: "a port in use is one line that names it and exit 69",
    from: "choice",
    why: "it is the commonest first error",
  },
  "cli:background": {
    says: "svc serve --background returns when svc serves its configuration, or with the reason why it does not",
    from: "choice",
    why: "the next line of a script must find svc ready, and a start that fails must not look like one that works",
  },
  "cli:hangup": {
    says: "SIGHUP reloads the configuration, and stops an svc whose terminal is closed",
    from: "choice",
    why: "the system sends it, too, when a terminal window is closed, and nobody would find the svc that stays",
  },
  "cli:log-file": {
    says: "--log-file takes the log in place of stderr, and is rotated by size",
    from: "choice",
    why: "nothing rotates the stderr of a program that runs for months",
  },
  "cli:stop": {
    says: "svc stop ends the svc of a configuration as SIGTERM does, kills it after --timeout, returns when the process has ended, and exits with 0 if none runs",
    from: "choice",
    why: "a script that wants svc stopped wants it to be so, not to have been the cause",
  },
  "cli:ps": {
    says: "svc ps lists every running svc of the user that listens for a configuration; what a killed one leaves behind is not shown",
    from: "choice",
    why: "with several configurations, a person must find out which of them are served, and where",
  },
  "cli:demo": {
    says: "while no other svc holds the configuration, svc's commands find the demo as they find any svc, and none of them changes it",
    from: "choice",
    why: "the first thing that a person tries after svc serve --demo is another command",
  },
  "cli:service": {
    says: "svc service install shows the file and the commands before it asks, changes nothing twice, and leaves nothing after a failure or svc service uninstall",
    from: "choice",
    why: "what starts by itself must be known to its owner, and be easy to take away",
  },
  "cli:service:systemd": {
    says: "a unit has Type=notify, a watchdog, the PATH of the installation, and the hardening that servers can bear",
    from: "choice",
    why: "a unit without the user's PATH finds no npx, and one that forbids compiling or the home breaks servers",
  },
  "cli:service:notify": {
    says: "svc tells systemd when it is ready, reloads, stops and is alive; no server inherits the socket for that",
    from: "choice",
    why: "a server with NOTIFY_SOCKET could tell systemd that svc is well",
  },
  "cli:upgrade": {
    says: "svc upgrade replaces the program at once and keeps the one before for --rollback; older releases only with --version; what a package manager has installed is left to it",
    from: "choice",
    why: "at every moment there must be a whole program, and two owners of one file undo each other's work",
  },
  "cli:upgrade:checks": {
    says: "a program is used only if its SHA-256 stands in SHA256SUMS, that file is signed by the compiled-in key, and the signature names the program's version; a build without a key says that it has checked the SHA-256 alone",
    from: "choice",
    why: "who controls the server or the network must not control the program; a build from source has no key to check with",
  },
  "cli:uninstall": {
    says: "svc uninstall shows what it removes, removes services and programs, refuses while svc runs, and keeps the configuration unless --purge",
    from: "choice",
    why: "a program is easily installed again, a configuration is not",
  },
  "cli:completion": {
    says: "svc completion prints a script with which a shell completes commands, flags, values of flags, files, and names of servers, templates, tools, presets, tokens and backups; svc complete answers it without the network, and never with an error",
    from: "choice",
    why: "a name that is completed is not misspelt, and a message in the middle of a line would be worse than no completion",
  },
  "cli:completion:shells": {
    says: "the scripts work in bash, zsh and fish as a person types",
    from: "choice",
    why: "these are the shells of the systems that svc runs on",
  },
  // Screens
  "states:words": {
    says: "people are shown one vocabulary of server states in all commands and internal tools",
    from: "choice",
    why: "three words for one state make a reader look for a difference",
  },
  "cli:table": {
    says: "tables fit the terminal: the widest columns are cut, but never an address or a name to type, and advice continues on the next line; empty columns are left out, wide characters count as two columns, texts of servers are escaped",
    from: "choice",
    why: "a row that wraps inside a word cannot be read; the detail view and JSON hold the whole value",
  },
  "cli:help": {
    says: "each help page fits the terminal, names every option once, svc serve's in groups, and ends with examples that svc accepts",
    from: "choice",
    why: "forty options in one list are not read, and an example is copied first",
  },
  "cli:json": {
    says: "under --json a failure is {error: {code, message}} on stdout, with the exit code of the failure and nothing on stderr",
    from: "choice",
    why: "a program reads one stream, and must tell a failure from a result by its shape",
  },
  "cli:json:shapes": {
    says: "a server, an instance, a tool, a token, a preset and a log line each have one shape under --json, documented in docs/json.md",
    from: "choice",
    why: "a script that reads one command can read the others",
  },
  "front:page": {
    says: "GET / answers a browser with a page that shows how clients connect to this address, and a program with JSON; it needs no token and shows none",
    from: "choice",
    why: "people open the printed address in a browser; a JSON error tells them nothing",
  },
  "rest:openapi": {
    says: "every answer under /api/v1 fits the OpenAPI document at /api/v1/openapi.json, and every error is a problem detail (RFC 9457)",
    from: "choice",
    why: "a client made from the document must work",
  },
  "rest:login": {
    says: "without --auth, /api/v1 needs a session of svc admin: a link holds once, for 60 seconds; a cookie alone opens nothing, and no other origin may use it",
    from: "choice",
    why: "every program and page on the machine reaches a loopback port, and browsers send a cookie to all ports of a host",
  },
  "rest:auth": {
    says: "with --auth, /api/v1 needs a token that is not limited to tags; the views without a version select by tags as /mcp does",
    from: "choice",
    why: "the configuration of all servers is more than the use of some",
  },
  "audit:rest": {
    says: "each change through REST is a line of the audit log, with who made it",
    from: "choice",
    why: "a change over the network must be as traceable as a command",
  },
  "rest:auth-login": {
    says: "with --auth, POST /api/v1/session turns a token into a login of a browser for REST alone, which may do what the token may and ends with it",
    from: "choice",
    why: "a page should not keep a token where its scripts can read it",
  },
  "admin:review": {
    says: "the admin page shows issues with their place, changed tools with what has changed, calls over time and sessions",
    from: "choice",
    why: "what needs a person must not hide in a log",
  },
  "admin:hostile-server": {
    says: "no text that a server sends runs as a script in the admin page, or makes it load anything",
    from: "choice",
    why: "descriptions, results and logs are the server's",
  },
  "admin:hostile": {
    says: "a page of another origin, another port of this host included, and a host name that was rebound get nothing from REST, with any request",
    from: "choice",
    why: "an open browser must not make svc run programs for a page",
  },
  "rest:issuer-login": {
    says: "with an issuer that lets svc be a client, the admin page logs in there with PKCE, in the browser that began the login alone",
    from: "choice",
    why: "people have an account at the issuer, and no token to paste",
  },
  "rest:authorize": {
    says: "POST /api/v1/servers/NAME/authorize starts the sign-in to a remote server as svc auth login does, and answers with the address to open",
    from: "choice",
    why: "the page must not send people to a terminal",
  },
  "admin:page": {
    says: "the admin page at /admin is part of the program: it loads nothing from elsewhere, runs its own scripts alone, cannot be framed, and needs less than 120 KB",
    from: "choice",
    why: "a page that manages what runs on this machine must not run what others send",
  },
  "admin:login": {
    says: "without a login the admin page shows how to log in, and nothing else",
    from: "choice",
    why: "a person who opens the address must learn what to do",
  },
  "admin:live": {
    says: "a change of the configuration shows on every open admin page without a reload",
    from: "choice",
    why: "the file is the source of truth, and an editor, a command and another tab change it too",
  },
  "admin:servers": {
    says: "on the admin page a person restarts, enables and disables servers, and sees why one fails and what to do",
    from: "choice",
    why: "a state without a remedy sends people to the documentation",
  },
  "admin:edit": {
    says: "the admin page adds, changes and removes servers by forms made from the schema; it keeps hidden secrets, and refuses a change of a server that was changed meanwhile",
    from: "choice",
    why: "a page must not undo what an editor has written",
  },
  "admin:zero-tools": {
    says: "on the admin page, a change that leaves a server without an enabled tool is made after a question alone",
    from: "choice",
    why: "a server without tools looks broken to clients",
  },
  "admin:tools": {
    says: "the admin page hides and shows tools, and replaces and restores their descriptions beside the servers' own texts",
    from: "choice",
    why: "the specification asks for it",
  },
  "admin:try": {
    says: "the admin page calls a tool by a form made from its schema, and shows texts, tables, images and structured content; no text of a server is ever HTML",
    from: "choice",
    why: "a person must see what an assistant would get",
  },
  "admin:logs": {
    says: "the admin page follows the logs of servers, by server, level and text",
    from: "choice",
    why: "what a server wrote explains most failures",
  },
  "admin:presets": {
    says: "the admin page shows what a preset selects while it is written",
    from: "choice",
    why: "an expression over tags is easily wrong",
  },
  "admin:install": {
    says: "the admin page shows the whole command, the variables and the rights before it installs a server, and installs exactly that",
    from: "choice",
    why: "an installation runs code of others",
  },
  "admin:search": {
    says: "the admin page shows the ranking of a search over tools, with scores and where the words were found",
    from: "choice",
    why: "without it nobody knows why an assistant misses a tool",
  },
  "admin:access": {
    says: "the admin page works by keyboard, on narrow screens, in light and dark, without serious findings of axe",
    from: "choice",
    why: "everybody must be able to use it",
  },
  "rest:off": {
    says: "--no-admin leaves out REST, its login and the admin page",
    from: "choice",
    why: "what is not needed should not be reachable",
  },
  "rest:pages": {
    says: "lists under /api/v1 come in pages, in an order and with cursors that changes of the list do not disturb",
    from: "choice",
    why: "a list that changes between two pages must not skip an entry",
  },
  "rest:secrets": {
    says: "no answer under /api/v1 shows a configured secret; a hidden value that is sent back keeps what is written",
    from: "choice",
    why: "an editor must be able to change a server without knowing its secrets",
  },
  "rest:if-match": {
    says: "PUT of a server needs the ETag of what was read, and answers 412 if the server was changed since",
    from: "choice",
    why: "two editors must not undo each other",
  },
  "rest:edits": {
    says: "edits through REST, commands and the file at the same time never lose one another",
    from: "choice",
    why: "all of them go through the file",
  },
  "rest:zero-tools": {
    says: "a change through REST that leaves a server without an enabled tool answers 409 unless confirmZeroTools is true",
    from: "Command-line and configuration interfaces",
  },
  "rest:descriptions": {
    says: "REST shows a replaced description, and the server's own beside it",
    from: "Command-line and configuration interfaces",
  },
  "rest:install": {
    says: "POST /api/v1/install without a digest only plans and shows the whole command; it installs with the digest of that plan alone",
    from: "choice",
    why: "a person must have seen what will run",
  },
  "rest:events": {
    says: "GET /api/v1/events follows servers, configuration, catalog and finished calls; /api/v1/logs/stream follows log lines",
    from: "choice",
    why: "a page that polls is late and costs more",
  },
  "rest:views": {
    says: "GET /api/servers, /api/tools, /api/inspect and /api/instructions show what /mcp shows, and POST /api/tool-invocations calls a tool",
    from: "choice",
    why: "scripts of the system that the specification describes use them",
  },
  "cli:logs": {
    says: "svc logs selects lines by number, time, level and text, and shows those of one configuration",
    from: "choice",
    why: "two configurations in one directory may name their servers alike",
  },
  "cli:first-screen": {
    says: "svc serve shows what is starting and then what is ready, what needs attention and what comes next: on a terminal in place, elsewhere as one line of the log",
    from: "choice",
    why: "npx may take half a minute to install a server, and silence looks like a failure",
  },
  "cli:color": {
    says: "colors show on a terminal only; NO_COLOR turns them off, FORCE_COLOR on, COLUMNS sets the width",
    from: "choice",
    why: "these are the field's conventions",
  },
  "release:signature": {
    says: "SHA256SUMS names every file of a release, and its minisign signature names the version in the trusted comment",
    from: "choice",
    why: "one signature covers all files, and an old release cannot be passed off as a new one",
  },
  "release:same-bytes": {
    says: "a release of one commit has the same bytes again",
    from: "choice",
    why: "others can check that a release is made of its source",
  },
  "release:installer": {
    says: "install.sh replaces no program with one that does not run, and names the packages that Alpine lacks",
    from: "choice",
    why: "an update that fails must leave what worked",
  },

  // Replicas
  "cluster:off": {
    says: "without --cluster svc loads no code of a cluster",
    from: "choice",
    why: "a feature that is off costs nothing",
  },
  "cluster:option": {
    says: "--cluster takes the URL of one Redis or Valkey; a password on the command line must be a reference to a variable",
    from: "choice",
    why: "other users of a machine can read command lines",
  },
  "cluster:tls": {
    says: "svc reaches a Redis with a certificate of a private authority that NODE_EXTRA_CA_CERTS names, and says so where it is missing",
    from: "choice",
    why: "a Redis of one's own seldom has a public certificate",
  },
  "cluster:unfit": {
    says: "svc does not start with a node of a Redis Cluster or a Sentinel as its shared state, and says so",
    from: "choice",
    why: "such a Redis refuses commands only for some keys, and thus only some sessions",
  },
  "cluster:state": {
    says: "replicas that share a Redis have records by field, compare and set, buckets, windows, leases with fencing tokens, and messages in order",
    from: "choice",
    why: "what replicas agree on rests on these",
  },
  "cluster:keys": {
    says: "replicas agree on random keys, also when the shared state is cleared meanwhile",
    from: "choice",
    why: "who knows the key could reach servers as a replica does",
  },
  "cluster:apart": {
    says: "clusters with different prefixes or databases on one Redis share neither records nor messages",
    from: "choice",
    why: "a replica sends clients' requests, with their credentials, to those that it takes for its own",
  },
  "store:contract": {
    says: "sessions, secrets, eras, pins and rate limits behave the same in svc's own files and in Redis",
    from: "choice",
    why: "--cluster must not change what is kept",
  },
  "cluster:eras": {
    says: "what one replica learns of a server's era, or that it was wrong, all know; a replica that starts probes no server that another has probed within a day",
    from: "choice",
    why: "a failed probe costs time, and some servers a start",
  },
  "cluster:pins": {
    says: "the first replica that sees a tool pins it for all: on a replica to which the server lists another definition the tool has changed",
    from: "choice",
    why: "a server that lies to one replica must not be believed there because that replica is new",
  },
  "cluster:sessions": {
    says: "a session that one replica opened is used on all replicas, and ends on all",
    from: "choice",
    why: "a load balancer needs no sticky sessions",
  },
  "session:params": {
    says: "initialize is refused if its params have more than 65,536 characters",
    from: "choice",
    why: "svc keeps them as long as the session: a client must not fill its memory, or that of all replicas",
  },
  "cluster:sessions:bounded": {
    says: "a principal has at most 50,000 sessions in Redis; beyond that, those end whose last use was stored longest ago",
    from: "choice",
    why: "one client that opens sessions in a loop must not fill the memory that all replicas share",
  },
  "cluster:calls": {
    says: "a tool is called by its name and arguments alone through any replica",
    from: "choice",
    why: "programs that call one tool need not know whether there are replicas",
  },
  "cluster:answers": {
    says: "the client's answer to a server's question reaches the call, whichever replica receives it",
    from: "choice",
    why: "the id of the question names the replica that asked",
  },
  "cluster:cancel": {
    says: "a cancellation reaches the call, whichever replica receives it",
    from: "choice",
    why: "a call that nobody wants must not go on",
  },
  "cluster:resume": {
    says: "a client resumes a broken stream on any replica without a loss while the replica that sent it lives",
    from: "choice",
    why: "events stay where they are sent: copying each to Redis would cost every stream",
  },
  "cluster:stream": {
    says: "what belongs to no request goes to the replica on which the client opened its stream last",
    from: "choice",
    why: "a client has one such stream",
  },
  "cluster:stream:dies": {
    says: "when the replica with a client's stream dies, the client opens the stream on another and is told there what belongs to no request",
    from: "choice",
    why: "the session goes on elsewhere",
  },
  "cluster:balanced": {
    says: "clients of both SDKs and both eras call and answer questions through a load balancer that distributes each request anew",
    from: "choice",
    why: "clients know nothing of replicas",
  },
  "cluster:lists": {
    says: "a change of a server's lists on one replica is told to clients whose stream another replica has",
    from: "choice",
    why: "the load balancer decides which replica a client's call changes",
  },
  "cluster:subscriptions": {
    says: "an update of a resource of a stdio server on one replica reaches its subscribers on the others",
    from: "choice",
    why: "each replica runs its own process of a stdio server",
  },
  "cluster:tasks": {
    says: "a task is found through any replica, and stays unknown to other clients",
    from: "choice",
    why: "its id names the replica whose server has it",
  },
  "cluster:tasks:list": {
    says: "tasks/list lists the tasks of all replicas that live, each once and in one order, whichever replicas answer for its pages, and those of remote servers that outlived their replica",
    from: "choice",
    why: "a client does not know that there are replicas",
  },
  "cluster:tasks:listen": {
    says: "a modern client that listens to a task hears of it on any replica",
    from: "choice",
    why: "the request goes on to the replica whose server has the task",
  },
  "cluster:health": {
    says: "health shows the replica, the number of replicas, the digest of the configuration and the replicas that differ; readiness shows whether the shared state is away, and stays 200",
    from: "choice",
    why: "if every replica left the load balancer with Redis, nothing would go on",
  },
  "cluster:limits": {
    says: "rate limits of sessions, principals and servers count the calls of all replicas; while the shared state is away, each replica counts its own",
    from: "choice",
    why: "a client must not get more calls from more replicas, and a limit must not become a failure",
  },
  "cluster:limits:health": {
    says: "replicas count health reports and logins of an address together; /health/live and /health/ready are counted by each, and no request waits for the count",
    from: "choice",
    why: "probes ask each replica, and more replicas must not mean more attempts; a Redis that hangs must not make a probe fail",
  },
  "cluster:authorizations": {
    says: "tokens of remote servers are shared, sealed with SVC_STATE_KEY, and one replica at a time renews them",
    from: "choice",
    why: "a refresh token may be valid only once",
  },
  "cluster:tokens": {
    says: "a token that is created, changed or revoked on one replica while svc runs is that on all within a second; a revoked one is refused for good, and each replica's commands show all",
    from: "choice",
    why: "whoever revokes a token must not have to find all replicas",
  },
  "cluster:tokens:bounded": {
    says: "a revocation that replicas share is kept until the token would have expired, at least for a day; for a year if it does not expire",
    from: "choice",
    why: "everything that is kept needs an end; an older copy of tokens.json must not be brought back",
  },
  "cluster:tokens:sealed": {
    says: "with SVC_STATE_KEY, tokens in the shared state are sealed, and others are refused",
    from: "choice",
    why: "who can write to Redis must not be able to create a token",
  },
  "cluster:results": {
    says: "a stored result is read through any replica while the one that stored it lives; afterwards svc says that it is gone",
    from: "choice",
    why: "its id names the replica that stored it; copies of large results would cost Redis more than all else",
  },
  "cluster:sse": {
    says: "a message that is posted to /messages reaches the /sse stream of its client, whichever replica receives it",
    from: "choice",
    why: "the id of the stream names the replica that has it",
  },
  "cluster:approvals": {
    says: "a changed tool that is approved on one replica is approved on all, also on one that sees the change later",
    from: "choice",
    why: "an operator must not have to approve it as often as there are replicas",
  },
  "cluster:drift": {
    says: "svc warns if replicas have had different configurations for a minute",
    from: "choice",
    why: "clients would see servers come and go with each request",
  },
  "cluster:one": {
    says: 'a server with "replicas": "one" has one process in the cluster, and all replicas offer it: calls, questions, progress, cancellations and changes of lists cross',
    from: "choice",
    why: "some servers own what only one process may own: a file, a device, an account",
  },
  "cluster:one:limits": {
    says: "the replica that runs a server for all does not count calls of other replicas against --session-rate-limit",
    from: "choice",
    why: "the replica that received a call has counted it for its client",
  },
  "cluster:one:clients": {
    says: "a requestState from a server that another replica runs is of use only to the client that was given it",
    from: "choice",
    why: "to the replica with the server, the calls of all clients of another replica come from that replica",
  },
  "cluster:one:refused": {
    says: 'a template, or a server with "isolation": "session", that has "replicas": "one" is not loaded, and svc says what to change',
    from: "choice",
    why: "each replica renders instances for its own clients: an operator who believes that only one process runs could lose data",
  },
  "cluster:one:passes": {
    says: "when its replica dies, another replica runs it within five seconds plus its start; there are never two processes",
    from: "choice",
    why: "a lease that is not renewed runs out after three and a half seconds; its owner stops the server after two",
  },
  "cluster:one:clock": {
    says: "an owner whose machine's time is set back stops the server no later",
    from: "choice",
    why: "a machine that has lost its network often has its time set soon after",
  },
  "cluster:one:waits": {
    says: "a replica is ready when it knows who runs each server that one may run, at the latest after --startup-wait; calls that arrive while nobody runs it, or that its replica has not accepted, wait that long for the next owner; one that was lost with its replica fails with a sentence that says so",
    from: "choice",
    why: "what is not yet in flight need not fail",
  },
  "cluster:one:leaves": {
    says: "a replica that stops lets the calls of a server that it runs for all end, and those that arrive elsewhere meanwhile wait for the next owner",
    from: "choice",
    why: "a rolling update must not fail a call",
  },
  "cluster:one:fencing": {
    says: "an owner that was suspended stops the server before it uses it again, what comes late from it reaches nobody, and its replicas' old credentials are refused; a shared state that lost everything leaves servers to their owners",
    from: "choice",
    why: "two processes of such a server would damage what they write",
  },
  "cluster:one:away": {
    says: "a replica that stops gives the server to another at once; while the shared state is away no replica runs it",
    from: "choice",
    why: "replicas that cannot see each other must not both run it",
  },
  "cluster:drain": {
    says: "a replica that stops is not ready, still serves for --drain-delay, ends streams of both eras and of /sse so that their clients reconnect elsewhere, and lets open calls end",
    from: "choice",
    why: "a rolling update must not fail a call",
  },
  "cluster:drain:stream": {
    says: "what is sent to a session while its stream moves on from a replica that stops reaches its client once, on the stream that it resumes or opens elsewhere",
    from: "choice",
    why: "a rolling update must not lose a message",
  },
  "cluster:status": {
    says: "svc cluster status shows the replicas, their state and load, and where servers that run once are",
    from: "choice",
    why: "an operator must see what the load balancer chooses from",
  },
  "cluster:metrics": {
    says: "/metrics of a replica has its calls in flight, streams, replicas, owned servers, and whether the shared state is connected",
    from: "choice",
    why: "autoscalers and alerts read them",
  },
  "release:kubernetes": {
    says: "each release has manifests for Kubernetes, for one svc and for replicas, that follow the schemas of its API",
    from: "choice",
    why: "what is pasted into a cluster must work there",
  },
  "cluster:isolation": {
    says: "a session's own process of a server with isolation \"session\" is used through any replica; if its replica died, the session's next call starts another and is told that what the old one held is lost",
    from: "choice",
    why: "the state of a session must not depend on where the load balancer sends a request",
  },
  "cluster:chaos": {
    says: "with replicas and Redis killed at random, no call is executed twice, nothing of a client is given to another, sessions go on, and calls, questions, cancellations, tasks, stored results, resumptions and changes of lists fail only around a kill",
    from: "choice",
    why: "what clients cannot see they cannot repair",
  },
  "cluster:refusing": {
    says: "while the shared state refuses changes, what is shared already goes on, the rest answers 503 with Retry-After, and readiness says so; a read-only replica counts as away; what was cleared is shared again by itself",
    from: "choice",
    why: "a full or replaced Redis answers, and is still of no use",
  },
  "cluster:away": {
    says: "while the shared state is away, modern requests and known sessions go on; what needs it answers 503 with Retry-After; svc recovers by itself, even if the state lost all it held",
    from: "choice",
    why: "a failure of Redis must not be one of svc",
  },
}
