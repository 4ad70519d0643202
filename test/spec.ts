/**
 * The specification as data: every sentence that a test can check, with its source. The title of a test cites ids in brackets
 * at its end, `test("… [health:ready:crash-loop]", …)`, and `spec.test.ts` compares the ids. An entry that is not built yet states
 * the reason. Entries from "choice" describe what svc does if the specification is silent: they are the project's record of
 * decisions.
 */
export type Sentence = {
  readonly says: string
  /** A heading of the specification, or "choice". */
  readonly from: string
  /** The reason for a choice. */
  readonly why?: string
  /** The reason why no test cites it yet. */
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
    says: "memory.used and memory.total are the heap in MB; percentage is used/total with one decimal",
    from: "choice",
    why: "the heap is what the process can measure of itself",
  },
  "health:report:servers": { says: "servers counts total, healthy and unhealthy", from: "Health report" },
  "health:report:absent": {
    says: "lastConnected and lastError are absent when unknown; tags is always an array",
    from: "choice",
    why: "an absent field cannot be mistaken for a value",
  },
  "health:report:disabled": {
    says: "disabled servers count only in configuration, not in servers",
    from: "choice",
    why: "a server that is switched off is neither healthy nor unhealthy",
  },
  "health:report:left-out": {
    says: "a server or template that an issue keeps from running counts only in invalidCount, and appears in the issues; a template without instances counts only in configuration",
    from: "choice",
    why: "a load balancer must not remove a working svc because of one faulty entry",
  },
  "health:report:configuration": {
    says: "configuration contains loaded, the three counts, authEnabled and transport",
    from: "Health report",
  },
  "health:level:default": { says: "the default level is minimal", from: "Detail levels" },
  "health:level:option": {
    says: "the level comes from --health-info-level or SVC_HEALTH_INFO_LEVEL",
    from: "Detail levels",
  },
  "health:level:minimal": {
    says: "minimal contains status, counts and configuration, and no error text",
    from: "Detail levels",
  },
  "health:level:basic": { says: "basic adds memory, platform, runtime and per-server details", from: "Detail levels" },
  "health:level:full": { says: "full adds pid, arch and per-server protocol facts", from: "Detail levels" },
  "health:sanitize:credentials": {
    says: "error texts contain no user:password@, token or key",
    from: "Detail levels",
  },
  "health:sanitize:places": {
    says: "URLs and paths are redacted, IP addresses anonymized",
    from: "Detail levels",
  },
  "health:sanitize:harmless": {
    says: "a message without credentials, addresses and paths is not redacted",
    from: "choice",
    why: "an operator needs the words of an error to find its cause",
  },
  "health:overall:not-loaded": {
    says: "the status is unhealthy if the configuration is not loaded",
    from: "Overall health status",
  },
  "health:overall:all": { says: "the status is healthy if all servers are healthy", from: "Overall health status" },
  "health:overall:none": { says: "the status is degraded if there are no servers", from: "Overall health status" },
  "health:overall:half": {
    says: "the status is degraded if more than half of the servers are healthy, and unhealthy if half or fewer are",
    from: "choice",
    why: "the rows of the specification overlap at half; unhealthy is the safer answer for a load balancer",
  },
  "health:http:headers": {
    says: "each report has Content-Type, Cache-Control, X-Health-Status, X-Service-Version and X-Uptime-Seconds",
    from: "GET /health",
  },
  "health:http:status": { says: "the answer is 200 if healthy or degraded, and 503 if unhealthy", from: "GET /health" },
  "health:http:failure": {
    says: "if a report cannot be computed, the answer is 500 with status, timestamp, error and message",
    from: "Failure body",
  },
  "health:http:method": {
    says: "a wrong method gets 405 with Allow, an unknown path 404; both answers are JSON",
    from: "choice",
    why: "the operator must notice a probe that is set up wrongly",
  },
  "health:http:not-loaded": {
    says: "while the configuration is not loaded, /health and /health/ready answer 503 with zero counts",
    from: "Errors",
  },
  "health:http:never-waits": {
    says: "/health reads the current snapshot and never waits for a backend",
    from: "choice",
    why: "a health check must not hang because a backend hangs",
  },
  "health:healthy:server": {
    says: "a server is healthy if it is connected, answers pings, and had no transport failure in the last 60 s on its current connection since its last success; a status from 400 to 499 for one request is an answer, except 401, 407 and 408",
    from: "choice",
    why: "a connection may have been open for hours without use, and failures before a reconnect or a success are over",
  },
  "health:pings": {
    says: "svc pings a server that has sent nothing for 30 s, even while requests wait; any answer shows that it is alive, except one that says that the session is gone; pings say nothing about a server that has never answered one",
    from: "choice",
    why: "the use of a server must not conceal that it hangs, and some servers have no ping",
  },
  "health:alive": {
    says: "svc does not end a running process because it is silent, unless requests wait for its unresponsiveTimeout and nothing is received; a remote connection is opened anew after two unanswered pings, or if requests wait as long and nothing is received",
    from: "choice",
    why: "a server that is busy or lacks pings must not end in a crash loop, and a dead connection must not stay",
  },
  "tools:health": {
    says: "mcp_status and svc mcp status show whether a server is healthy, the reason if it is not, and its last ping, as /health and /health/mcp do",
    from: "choice",
    why: "the word connected does not distinguish a server that hangs from one that works",
  },
  "tool:counts": {
    says: "tools counts the tools that clients are offered, and hiddenTools those that are hidden from them; if all tools of a server are hidden, the log and the status say that it offers nothing",
    from: "choice",
    why: "a count that includes tools that no client sees conceals that the server is useless",
  },
  "health:unresponsive": {
    says: "if a server does not answer two pings in a row, it is unhealthy, its last error says so, and the log says so once",
    from: "choice",
    why: "without a reason, nobody can repair an unhealthy server",
  },
  "backend:reason": {
    says: "the report of a failed connection contains the host and the cause in words; that of a refusal says what to check; that of a web page says that it is one, and never quotes its text",
    from: "choice",
    why: "an error code of the runtime or a page of HTML does not tell what to fix",
  },
  "remote:media-type": {
    says: "svc understands the media type of a remote server's response in upper and lower case, and if the header repeats it",
    from: "choice",
    why: "media types are case-insensitive (RFC 9110), and some proxies add the header again",
  },
  "remote:redirect": {
    says: "svc sends configured headers only to the origin of the server's url; a GET follows any redirect within the origin, a POST only 307 and 308; the error for any other redirect says how its address differs",
    from: "choice",
    why: "headers may be secrets, and a POST that becomes a GET is another request",
  },
  "remote:limit": {
    says: "svc has at most 256 connections to one remote server, open streams among them; further requests wait in turn, 10,000 at most, and end with their caller or their time limit. Answers to the server, cancellations, pings and streams may use 32 more",
    from: "choice",
    why: "calls that hang at one server must not silence another, and must not wait for what could end them",
  },
  "remote:keep-alive": {
    says: "svc reuses an idle connection to a remote server until one second before the server closes it, as announced or as observed, and for 4 s if the server announces nothing",
    from: "choice",
    why: "a request on a connection that the server is just closing fails, and many servers close theirs after 5 s",
  },
  "remote:repeat": {
    says: "if a connection to a remote server ends before the first byte of the response, svc repeats the request once, on a new connection, if executing it twice does no harm: pings, lists, reads, prompts, completions, and calls of tools with readOnlyHint or idempotentHint. The error for any other request says that the server may have executed it",
    from: "choice",
    why: "HTTP allows it (RFC 9110, 9.2.2), and a healthy server must not be lost for a closed connection; some servers count the idle time of a new connection from its start",
  },
  "remote:cookies": {
    says: "svc keeps the cookies of a remote server in memory for each of its connections, and sends them back to its origin",
    from: "choice",
    why: "load balancers pin a client to a node with a cookie",
  },
  "remote:http": {
    says: "a response of a remote server whose end could be read in two ways, or with headers of more than 64 KiB, fails its request; bytes that no request asked for end their connection",
    from: "choice",
    why: "they could be taken for the response to another request",
  },
  "backend:unanswered": {
    says: "if a start gets no answer for 10 s, the status says so, how long the start may take, and whether the process prints text on stdout that is not MCP",
    from: "choice",
    why: "five minutes of silence look like a fault of svc",
  },
  "backend:down": {
    says: "a call to a server that is down gets an error with the cause, the host of its address, and the time at which svc tries it again",
    from: "choice",
    why: "a model that knows the cause tells the user instead of trying again at once",
  },
  "supervise:refused": {
    says: "if a remote server is there but refuses svc (4xx, a web page, a wrong revision), svc tries it again less and less often, up to 256 times the delay",
    from: "choice",
    why: "a wrong address or a missing permission does not fix itself",
  },
  "config:time": {
    says: "a time with a unit is refused with the number of milliseconds to write; the issue names the server that svc leaves out, and lists the server's other mistakes too",
    from: "choice",
    why: "if svc reported one mistake at a time, each would cost a reload",
  },
  "port:own": {
    says: "if another svc answers on a port in use, the error says so, and gives its address if it serves the same configuration",
    from: "choice",
    why: "if that svc serves the same configuration, another --port would only lead to the next refusal",
  },
  "output:full": {
    says: "a command that cannot write its output ends with one line and exit code 74",
    from: "choice",
    why: "a script must notice that its output is incomplete",
  },
  "logs:wire": {
    says: "svc logs NAME --wire shows the messages between svc and one server as they come, without secrets; svc records them only while somebody watches",
    from: "choice",
    why: "the author of a server must see what it received and sent, and a record of all messages would cost every call",
  },
  "mcp:watch": {
    says: "svc mcp restart NAME --watch PATH restarts a server when files change, but not when tools write beside them",
    from: "choice",
    why: "the author of a server changes it every minute, and a process that restarts itself below svc keeps its old tools",
  },
  "status:protocol": {
    says: "svc mcp status and svc doctor say that a running server prints text on stdout, and show its first invalid message",
    from: "choice",
    why: "a server that waits for an answer which it has itself made unreadable only seems to be slow",
  },
  "doctor:findings": {
    says: "svc doctor checks the configuration, the commands, the remote servers, the clients and svc's own files; each finding says what is wrong, why it matters and how to fix it; the exit code is 0, 1 for warnings, 2 for errors",
    from: "choice",
    why: "a user who does not know where the fault is needs one command that looks everywhere",
  },
  "doctor:fix": {
    says: "svc doctor --fix repairs permissions and removes files of processes that have ended; it shows each repair, and asks unless --yes is given",
    from: "choice",
    why: "svc may make repairs that lose nothing; people decide about all others",
  },
  "exit:reason": {
    says: "when a server crashes, svc reports the error line of the crash: that of the last Python traceback, or of the error that Node.js threw",
    from: "choice",
    why: "an exit code explains nothing, and the source line above the error is misleading",
  },
  "protocol:agreed": {
    says: "the acknowledgement of subscriptions/listen names the resources to which their servers accept a subscription",
    from: "choice",
    why: "a client that believes in a subscription which does not exist waits for updates forever",
  },
  "lazy:search:tasks": {
    says: "a search for a whole task finds tools for several of its steps; words of the story around it cost little",
    from: "choice",
    why: "an agent often passes on the task as the person wrote it, and the words that name the tools may come last",
  },
  "backup:all": {
    says: "svc backup saves the configuration, .env, presets, hashes of tokens, approved tools, sign-ins and secrets in one file that only its pass phrase opens; svc restore gives them back on any machine, and keeps what it replaces",
    from: "choice",
    why: "the backups of mcp.json alone do not bring a lost machine back, and a file with secrets must not be readable",
  },
  "shell:schema": {
    says: "svc run compares the arguments with the whole input schema of the tool, warns of differences, and refuses them with --strict",
    from: "choice",
    why: "many servers ignore what they do not know, so that a misspelt argument in a script would be lost",
  },
  "setup:all": {
    says: "svc setup shows all that it would change, asks once, imports the servers of all clients, connects the clients, starts svc, and says what works",
    from: "choice",
    why: "a new user should need one command, and should see everything that he agrees to",
  },
  "setup:beside": {
    says: "svc setup also connects a client whose servers are only in a file that svc does not write, and names those that the client still starts",
    from: "choice",
    why: "svc runs these servers, and the client would never use them there",
  },
  "setup:undo": {
    says: "svc setup --undo gives each file its former bytes; it keeps what was edited since, and leaves all servers in mcp.json while a client's file cannot be restored",
    from: "choice",
    why: "no server of a person may then be only in a file that svc removes",
  },
  "lists:age": {
    says: "a list older than its ttlMs is requested again when a client asks for it; one without, of a server that reports no changes, once a minute",
    from: "choice",
    why: "svc passes the time on to clients, which then ask svc: an answer from an older list would break that promise, and a server without notifications would be frozen",
  },
  "backend:lists:kept": {
    says: "if a list fails after a restart or a reconnect, svc keeps the list of the previous connection",
    from: "choice",
    why: "if a tool vanishes for a moment, calls fail, and a model uses the tool of another server instead",
  },
  "backend:lists:unlisted": {
    says: "if a server has never returned a list, a call by a name from that list gets an error that names the server and the failure",
    from: "choice",
    why: "the name may be right, and a similar name of another server means something else",
  },
  "backend:lists": {
    says: "a server with one failing list is connected, with the lists that it does return; svc asks for the failing list again, and does not restart the server",
    from: "choice",
    why: "a failing list of prompts must not take away the tools that work",
  },
  "backend:lists:refused": {
    says: "at a server's own address, a list that the server refuses is an error with the server's reason, and not an empty list; the pages before an error are offered; /mcp offers the lists of the other servers",
    from: "choice",
    why: "a client takes an empty list for a server without tools",
  },
  "definitions:contained": {
    says: "odd, unusable or hostile definitions of one server never hide anything from other servers: clients of both SDK generations can list and call the tools of the others, and the valid tools of that server; the check is linear and bounded",
    from: "choice",
    why: "clients on the official SDKs refuse a whole list because of one member of one entry",
  },
  "definitions:repaired": {
    says: "svc repairs what can only mean one thing in a definition (a null member is absent, a missing type of an input schema is object, an empty list in place of an object is an empty object), and leaves out an optional member of a wrong type, and a number beyond the range of doubles",
    from: "choice",
    why: "servers in PHP and Python write absent members and empty objects like this",
  },
  "definitions:output": {
    says: "svc leaves out an output schema that the official SDKs cannot compile; the tool stays",
    from: "choice",
    why: "clients compile the output schemas of all tools when they list them, and the tool works without its schema",
  },
  "definitions:left-out": {
    says: "svc leaves out an entry without a usable required member, such as a tool without a name; a resource without a name is named by its URI",
    from: "choice",
    why: "clients refuse the whole list otherwise",
  },
  "definitions:unchanged": {
    says: "valid definitions reach clients byte for byte, with unknown members in their order",
    from: "choice",
    why: "svc relays what servers say",
  },
  "definitions:handshake": {
    says: "svc checks the handshake of a server in the same way: SDK clients connect at the server's own address",
    from: "choice",
    why: "the SDKs refuse initialize because of one null member",
  },
  "definitions:issues": {
    says: "each repair and omission is an issue of that server, with the entry, the member and the reason: in svc mcp status, mcp_status, svc doctor, REST and the admin page, and in the log when it changes",
    from: "choice",
    why: "the author of a server must learn of its mistakes, and its users why a tool is missing",
  },
  "backend:degraded": {
    says: "a connected server with a failing list is called degraded, with the cause; it counts as healthy while it answers pings, and is connected in /health",
    from: "choice",
    why: "a server that works in part is not down, but people must see what fails",
  },
  "isolation:lists": {
    says: "a session with its own process of a server is offered what this process lists, and is notified when its lists change; other sessions are not affected",
    from: "choice",
    why: "the lists of another process may name tools that this process does not have, and omit tools that it has",
  },
  "aggregate:extensions": {
    says: "the aggregate advertises the extensions that it routes (apps, tasks and skills) and no others; the address of a single server advertises all extensions of the server",
    from: "choice",
    why: "clients rely on what is advertised, and svc cannot route a method that names no server",
  },
  "skills:aggregate": {
    says: "on /mcp, skills/list asks all servers in scope each time, merges their skills, and leaves out a server that fails; skills/get and resources/directory/read go to the server that the URI names; svc renames URIs, but not digests and frontmatter; at the address of one server, svc relays the extension unchanged",
    from: "choice",
    why: "no notification says that a skill has changed, and a client lists again because a digest no longer matches: a cached answer would repeat the old digest",
  },
  "cards:serve": {
    says: "GET /mcp/server-card and /servers/<name>/mcp/server-card return Server Cards, with ETag, caching and CORS headers; with --external-url, /.well-known/ai-catalog.json lists the cards, and pages of all origins may read them",
    from: "choice",
    why: "the extension reserves this path; without an external address svc is not published, and a web page must not find an svc on the user's machine",
  },
  "cards:auth": {
    says: "under --auth, the card of the aggregate and the catalog need no token and name no server; the card of a server needs a token that opens the server",
    from: "choice",
    why: "a client needs the card before it has a token, and the card must not publish what a scope hides",
  },
  "cards:read": {
    says: "svc mcp add --url and svc mcp install --url also take a host or page: svc reads its server card or AI catalog, uses a single endpoint and shows it, and lists several; an address that ends with mcp or sse, or that answers MCP, is used as it is",
    from: "choice",
    why: "people know the host of a service, but rarely the path of its endpoint",
  },
  "cards:ssrf": {
    says: "a card or catalog of a public host cannot lead svc to an address on its own machine or network, or from https to http; it cannot set a header that HTTP or MCP controls, or a password in the address",
    from: "choice",
    why: "a card is a claim of its host, and svc can reach addresses that the host cannot",
  },
  "health:live": { says: "/health/live answers 200 alive whenever svc can answer", from: "GET /health/live" },
  "health:ready:loaded": {
    says: "/health/ready answers 200 if the configuration is loaded and no supervised backend is restarting or in crash-loop",
    from: "Readiness",
  },
  "health:ready:restarting": {
    says: "/health/ready answers 503 while a supervised backend restarts",
    from: "GET /health/ready",
  },
  "health:ready:crash-loop": {
    says: "/health/ready answers 503 while a supervised backend is in crash-loop",
    from: "GET /health/ready",
  },
  "health:ready:no-threshold": {
    says: "readiness does not wait for servers to load, and has no minimum number of servers",
    from: "GET /health/ready",
  },
  "health:supervision:minimal": {
    says: "at minimal, backendSupervision counts total, connected, restarting, crashLoop and stopped",
    from: "Supervision summary",
  },
  "health:supervision:basic": {
    says: "at basic, backendSupervision lists the supervised backends without process ids",
    from: "Supervision summary",
  },
  "health:supervision:full": {
    says: "at full, backendSupervision lists the supervised backends with process ids",
    from: "Supervision summary",
  },
  "health:supervision:starting": {
    says: "during its first start, a supervised server is starting in the entries of backendSupervision, and counts as stopped at minimal",
    from: "choice",
    why: "the specification has four counts, and unlike a restart, a first start must not hold back readiness",
  },
  "health:mcp:restarting": {
    says: "a restart does not reopen loading; a server that restarts counts as failed in the summary, and is restarting in byState",
    from: "choice",
    why: "loading means only the first start, and the server's own address answers 503, as for a failed server",
  },
  "health:mcp:consistent": {
    says: "status, headers, summary, byState and details of /health/mcp agree; loading is complete when no server is pending or loading",
    from: "choice",
    why: "a script may read any of them",
  },
  "health:mcp:collection": {
    says: "/health/mcp reports loading, summary, servers and supervision",
    from: "GET /health/mcp",
  },
  "health:mcp:server": {
    says: "/health/mcp/:serverName answers 503 for a backend that is restarting or in crash-loop",
    from: "GET /health/mcp",
  },
  "health:limit:rate": {
    says: "each address may send 200 requests in 5 minutes to all health paths together, and then gets 429",
    from: "Limits",
  },
  "health:limit:headers": {
    says: "every health response has the rate-limit headers",
    from: "Limits",
  },

  // Configuration
  "config:file:default": {
    says: "the configuration is ~/.config/svc/mcp.json, or %APPDATA%\\svc\\mcp.json on Windows",
    from: "Configuration file",
  },
  "config:file:dir": {
    says: "--config-dir or SVC_CONFIG_DIR moves the whole configuration directory",
    from: "Configuration file",
  },
  "config:file:config": { says: "--config selects a file; its .env is the one beside it", from: "Configuration file" },
  "config:file:missing": {
    says: "svc creates a missing file with minimal content, and says so in one line",
    from: "choice",
    why: "the first run must work",
  },
  "config:server:last-valid": {
    says: "an entry that becomes invalid while svc runs keeps its last valid form, with an issue; at the first start, svc leaves it out",
    from: "choice",
    why: "a mistake in one value must not end a process and its calls",
  },
  "config:file:empty": {
    says: "an empty file is refused as invalid JSON, also at the first start, where a missing file counts as an empty configuration",
    from: "choice",
    why: "a file that is being written, or that was cut off by a full disk, must not count as a configuration",
  },
  "config:file:jsonc": {
    says: "the file may contain comments, trailing commas and a byte-order mark",
    from: "choice",
    why: "people edit this file by hand",
  },
  "config:file:broken": {
    says: "a document that is not JSON is refused as a whole, with line and column; svc keeps the last good plan",
    from: "choice",
    why: "half a configuration is worse than the previous one",
  },
  "config:key:unknown": {
    says: "an unknown key is a warning with its line and the nearest known key",
    from: "choice",
    why: "svc ignores nothing silently",
  },
  "config:server:wrong": {
    says: "svc leaves out a server with a wrong value, with an issue, and runs the others",
    from: "choice",
    why: "one mistake must not stop the other servers",
  },
  "config:server:type": {
    says: "type is stdio if the server has a command, and http if it has a url",
    from: "Server object",
  },
  "config:server:aliases": {
    says: "svc accepts the key names of other applications if they have the same meaning",
    from: "choice",
    why: "people bring their existing files",
  },
  "config:server:disabled-expression": {
    says: "svc renders an expression in disabled of mcpServers when it loads the file; a server whose expression needs a client does not run, with an issue",
    from: "choice",
    why: "a server that runs although its file may say that it is off is the worse mistake",
  },
  "config:server:disabled": {
    says: "a server does not start if disabled is true or one of the strings true, 1, yes, on",
    from: "Server object",
  },
  "config:server:name": {
    says: "if two names have the same slug, svc does not load the later server",
    from: "choice",
    why: "the name of a tool must lead to one server",
  },
  "config:overrides:blank": { says: "empty tool names and blank descriptions are refused", from: "Errors" },
  "config:oauth:unknown": {
    says: "an unknown oauth field that resembles a known one is an error that names it; any other is ignored with a warning",
    from: "choice",
    why: "svc must not ignore a misspelt secret, and other applications write members that svc does not know",
  },
  "config:backups": {
    says: "svc makes a backup before each of its edits, and keeps the newest 20",
    from: "choice",
    why: "every edit must be reversible",
  },
  "process:killed": {
    says: "when svc is killed, the process group of every server ends too, even of a server that svc was just starting",
    from: "choice",
    why: "a killed svc must leave nothing behind that occupies ports, files or memory",
  },
  "serve:open-files": {
    says: "svc raises its limit of open files as far as allowed, and warns at the start if the limit is lower than its maximum number of sessions",
    from: "choice",
    why: "at the limit, svc cannot answer new connections, and nothing else reveals the reason",
  },
  "secrets:errors": {
    says: "no error that svc creates contains a configured secret, even if a server repeats the secret that it was sent",
    from: "choice",
    why: "a client that may call a server must not learn the server's credentials",
  },
  "secrets:errors:address": {
    says: "an error of a connection to a remote server is in svc's own words and names only the host; its cause is in the log, with the host alone",
    from: "choice",
    why: "paths and queries of addresses may be secret, and the runtime's messages contain them",
  },
  "config:edit:judgement": {
    says: "commands, internal tools and REST refuse the same edits: those with a new error; a variable that is not set is an error only if a server that is loaded would be left out",
    from: "choice",
    why: "what svc accepts must not depend on who asks",
  },
  "config:edit:lock": {
    says: "two edits at the same time lose nothing; the lock of a killed process is released at once",
    from: "choice",
    why: "commands and assistants edit the file too",
  },
  "timeout:precedence:connection": {
    says: "connectionTimeout takes precedence over timeout for connecting",
    from: "Server object",
  },
  "timeout:precedence:request": {
    says: "requestTimeout takes precedence over timeout for requests",
    from: "Server object",
  },

  // serverDefaults
  "defaults:env:merge": {
    says: "env objects are merged, and the server's keys win; an array replaces the default",
    from: "serverDefaults 1",
  },
  "defaults:envFilter": {
    says: "the envFilter entries of the server follow those of the defaults; duplicates are kept once",
    from: "serverDefaults 2",
  },
  "defaults:replace": {
    says: "oauth and headers of the server replace those of the defaults",
    from: "serverDefaults 3",
  },
  "defaults:missing": {
    says: "a server inherits timeouts, inheritParentEnv and restart settings only if it does not set them",
    from: "serverDefaults 4",
  },
  "defaults:stdio": {
    says: "stdio servers ignore default headers; remote servers ignore the default inheritParentEnv and envFilter",
    from: "serverDefaults 5",
  },
  "defaults:restart": { says: "restart settings apply only to stdio servers", from: "serverDefaults 6" },

  // Environment
  "env:substitute:forms": {
    says: "$NAME and ${NAME} are replaced; $$ is a literal dollar; ${NAME:-default} has a default",
    from: "Environment substitution",
  },
  "env:substitute:foreign": {
    says: "${env:NAME} means ${NAME}",
    from: "choice",
    why: "Cursor and VS Code write it in this form, and svc reads their files unchanged",
  },
  "env:substitute:nested": {
    says: "a default may contain references, which count only where the default is used",
    from: "choice",
    why: "as in a shell: half a default would become part of a path",
  },
  "env:substitute:own": {
    says: "a name in the server's own env is replaced by that value in its other settings, and in env itself if it is set nowhere else",
    from: "choice",
    why: "guides of servers write a key once in env and refer to it in args",
  },
  "env:substitute:lookalike": {
    says: "a ${…} that is no reference stays as written, with a warning that names its place",
    from: "choice",
    why: "a server would get text that its author meant as a variable",
  },
  "usage:tree": {
    says: "svc mcp status, svc ps and the metrics show the memory and the processor time of each server's process tree, where the system tells",
    from: "choice",
    why: "people ask which server costs what",
  },
  "metrics:durations": {
    says: "/metrics has the durations of calls by server, tool and kind of failure, with the name, the buckets and the labels of OpenTelemetry's conventions for MCP, in a bounded number of series",
    from: "choice",
    why: "which tool is slow is the first question, and dashboards for MCP expect this metric",
  },
  "frame:structure": {
    says: "the end of a large result is found by its strings and brackets alone; wherever the result is JSON, it is where the grammar says",
    from: "choice",
    why: "the whole grammar of a megabyte takes longer than everything else that svc does with it",
  },
  "frame:large": {
    says: "no member can follow a large result in its message, no string in it has a line break, and it is not nested too deep; a large result that is otherwise not JSON is an error on stdio and shared streams, and reaches the client in an HTTP response of its own",
    from: "choice",
    why: "there, it can harm only the call that it answers, as it would without svc",
  },
  "notify:kinds": {
    says: "svc notifies of servers that need a sign-in, crash or are away, of changed tools, errors of the configuration, differing replicas and tokens that expire; `on` chooses among them",
    from: "choice",
    why: "these are the problems that svc cannot solve without a person",
  },
  "notify:once": {
    says: "a problem is sent once when it begins, once when it is over, and at most every ten minutes if it comes and goes",
    from: "choice",
    why: "people ignore a channel that repeats itself",
  },
  "notify:webhook": {
    says: "a webhook gets one line of text and data for programs, without secrets; neither its address nor its headers appear in a log",
    from: "choice",
    why: "chats show a text, and their addresses are keys",
  },
  "notify:signed": {
    says: "requests to a webhook with a secret are signed as Standard Webhooks says",
    from: "choice",
    why: "receivers can check them with existing libraries",
  },
  "notify:retry": {
    says: "what a target cannot take now is sent again under the same id a bounded number of times, a refusal is not, and the queue is bounded",
    from: "choice",
    why: "a receiver that restarts must not lose a notification, and one that is gone must not cost memory",
  },
  "notify:command": {
    says: "a command gets the notification on stdin and in variables, and runs only if commands are allowed; what it has started ends with it",
    from: "choice",
    why: "a configuration file that is handed around must not run anything by surprise",
  },
  "notify:test": {
    says: "svc notify test says what each target answered, and exits with 69 if one did not accept the test",
    from: "choice",
    why: "nobody wants to wait for a failure to learn that the address is wrong",
  },
  "metrics:http": {
    says: "/metrics has the durations of HTTP requests by method, route and status; no text of a client becomes a label",
    from: "choice",
    why: "a proxy in front of svc shows the same numbers, so the two can be compared",
  },
  "metrics:waiting": {
    says: "/metrics counts the requests that wait for a server",
    from: "choice",
    why: "a server that does not come back is first seen by the requests that pile up",
  },
  "metrics:wake": {
    says: "/metrics has the time that each sleeping server took to start for a call",
    from: "choice",
    why: "it is the price of idleTimeout, and tells which server should not sleep",
  },
  "metrics:sessions": {
    says: "/metrics has the durations of the sessions of clients and of the connections to servers that have ended",
    from: "choice",
    why: "a server that keeps losing its connection has short ones",
  },
  "metrics:principals": {
    says: "with --metrics-principals, /metrics counts the calls of each client, in a bounded number of series",
    from: "choice",
    why: "who uses svc is a question of operators, but names of people do not belong in every monitoring system",
  },
  "metrics:push": {
    says: "with an OTLP endpoint, svc sends its metrics at OTEL_METRIC_EXPORT_INTERVAL and when it stops, as protobuf or JSON; the values are cumulative",
    from: "choice",
    why: "a request that is lost then loses nothing, and nothing has to be kept for a receiver that is away",
  },
  "metrics:push-off": {
    says: "OTEL_METRICS_EXPORTER=none and OTEL_TRACES_EXPORTER=none turn off metrics or traces",
    from: "choice",
    why: "many receivers take only one of the two",
  },
  "metrics:push-outage": {
    says: "a receiver of metrics that is down, hangs or refuses delays no call, and is one line of the log",
    from: "choice",
    why: "observation must not harm what it observes",
  },
  "metrics:dashboard": {
    says: "all queries of the dashboard in docs/monitoring have data in a Prometheus that scrapes svc",
    from: "choice",
    why: "a panel without data is found when it is needed",
  },
  "metrics:alerts": {
    says: "each alert in docs/monitoring fires for what it is for, and only then",
    from: "choice",
    why: "an alert is tried out by nobody until it must fire",
  },
  "metrics:conventions": {
    says: "names, units, types and attributes of spans and metrics follow the published semantic conventions of OpenTelemetry; svc's own begin with svc.",
    from: "choice",
    why: "dashboards and tools for MCP then work with svc",
  },
  "traces:path": {
    says: "with an OTLP endpoint, each client request is a server span and each request to a server a client span in it, with the names and attributes of the conventions for MCP; the parent is the traceparent in _meta, and servers on stdio and HTTP get the context of svc's span",
    from: "choice",
    why: "one trace then leads from an agent through svc into the server that it uses, whatever the transport and the era",
  },
  "traces:baggage": {
    says: "if svc sends traces, the baggage of a client reaches only the servers that --otlp-baggage names",
    from: "choice",
    why: "baggage holds facts about users, which are not for every server",
  },
  "traces:errors": {
    says: "the span of a failure has an error.type: the JSON-RPC code, or what happened",
    from: "choice",
    why: "people search traces for failures",
  },
  "traces:content": {
    says: "spans have no arguments and results without --otlp-content, and with it none with secrets; URIs have no query and no credentials; the id of a session is a digest",
    from: "choice",
    why: "traces leave the machine, and more people read them than may call the tools",
  },
  "traces:outage": {
    says: "a receiver of traces that is down, slow or refuses delays no call, and is one line of the log; spans that are dropped are counted",
    from: "choice",
    why: "observation must not harm what it observes",
  },
  "traces:sampling": {
    says: "OTEL_TRACES_SAMPLER decides which traces svc records, by default as the client decided; servers get the decision",
    from: "choice",
    why: "the variables of OpenTelemetry mean the same for every program",
  },
  "traces:ids": {
    says: "the audit log and the access log name the trace of a request",
    from: "choice",
    why: "a line of a log leads to the trace, and a trace to the lines",
  },
  "traces:settings": {
    says: "svc serve refuses gRPC and an endpoint that is not http or https; it ignores other wrong variables of OpenTelemetry with a warning, and svc's flags come before the variables",
    from: "choice",
    why: "the variables are often set for many programs at once, of which some speak gRPC",
  },
  "access:log": {
    says: "--access-log writes a line of JSON for each HTTP request, with client, principal, path, status and duration, and without queries, bodies and secret headers",
    from: "choice",
    why: "operators read such logs with the tools that they have",
  },
  "shell:once": {
    says: "svc run --once starts only the server of its call, and stops it, unless svc is running",
    from: "choice",
    why: "a script needs one call, not a service",
  },
  "serve:wait": {
    says: "svc serve --background --wait returns when the servers are connected, and exits with 69 if one is not in time",
    from: "choice",
    why: "a pipeline must not go on without its tools",
  },
  "cli:add:fails": {
    says: "a command that adds or changes a server exits with 69 if the running svc cannot start it",
    from: "choice",
    why: "a script must notice it",
  },
  "connect:start": {
    says: "svc connect lets the client start svc (svc proxy --start), also if one runs in a terminal or in the background; if svc is a service or has an external URL, the client gets the address; --stdio and --no-stdio decide",
    from: "choice",
    why: "an address at which nothing listens after a reboot or a stop is a dead entry",
  },
  "connect:several": {
    says: "svc connect connects several clients, or all that are there, one after the other",
    from: "choice",
    why: "most people have more than one client",
  },
  "import:notations": {
    says: "an import translates the notations of clients, and names each setting that it could not keep",
    from: "choice",
    why: "a setting that vanishes without a word makes a server that works elsewhere fail here",
  },
  "import:foreign-references": {
    says: "an imported text refers to variables only, never to a file, the keychain or a command",
    from: "choice",
    why: "the file of a repository must not make svc read what belongs to the person",
  },
  "import:project-paths": {
    says: "relative paths of a project's server are those of its folder",
    from: "choice",
    why: "svc does not run in that folder",
  },
  "import:workspace": {
    says: "${workspaceFolder} is the folder of the project, or makes the server a template",
    from: "choice",
    why: "a client knows its project, and svc serves many",
  },
  "sleep:machine": {
    says: "a server that is asleep or wakes counts as connected, and keeps its listing until it has listed again or fails",
    from: "choice",
    why: "health must not blink at each wake",
  },
  "sleep:idle": {
    says: "a stdio server with idleTimeout has no process after that time without a call; a call starts it again",
    from: "choice",
    why: "people configure thirty servers and use three a day",
  },
  "sleep:needed": {
    says: "a server never sleeps while it has calls, requests, tasks or subscriptions, or waits for input, nor without idleTimeout, with stateful or with processes of sessions",
    from: "choice",
    why: "what the process knows would be lost",
  },
  "sleep:tasks": {
    says: "a process is kept for a task until its time to live is over, its client has cancelled it, or has had its result for five minutes",
    from: "choice",
    why: "a task that nobody needs any more must not keep a process for good",
  },
  "sleep:lazy": {
    says: "a lazy server is started once to list what it offers, and then only when a client needs it, also after a restart of svc",
    from: "choice",
    why: "fifty servers should cost nothing until they are used",
  },
  "sleep:listing": {
    says: "what a server lists when it wakes replaces the listing that svc has stored, and clients are notified of a difference",
    from: "choice",
    why: "a server may have been updated meanwhile",
  },
  "sleep:first-call": {
    says: "the call that wakes a server is sent when the server has answered initialize, beside its lists, unless toolPinning is strict",
    from: "choice",
    why: "a slow list must not delay a call; a tool that has changed must not be called unseen",
  },
  "sleep:gone": {
    says: "a call of a tool that a server no longer has when it is back is refused with the names of the tools that it has",
    from: "choice",
    why: "the client knows only the listing from before",
  },
  "sleep:failed": {
    says: "a server that fails to wake is reported as any server that fails to start, and is started again maxRestarts times, also without restartOnExit",
    from: "choice",
    why: "its tools cannot be used; svc had ended it, so one failed start must not end it for good",
  },
  "sleep:retuned": {
    says: "a server that may no longer sleep is started",
    from: "choice",
    why: "changes of the configuration apply at once",
  },
  "sleep:stored": {
    says: "a stored listing counts only for the launch that it comes from; a damaged file counts as none",
    from: "choice",
    why: "another program offers other tools",
  },
  "sleep:removed": {
    says: "svc removes the stored listing of a server that is not in its mcp.json any more, but not of one that is disabled or faulty, nor of another mcp.json in the same directory",
    from: "choice",
    why: "nobody else would, and a server that comes back should not be started to list",
  },
  "views:rules": {
    says: "a preset selects by tags, servers, allow, deny and readOnly: globs over server/tool, server/prompt:NAME and server/resource:URI, and deny wins",
    from: "choice",
    why: "clients need some tools of a server, not all of them",
  },
  "views:hold": {
    says: "a preset with new: hold includes a tool only after svc preset approve has approved it; until then, nothing of the tool shows",
    from: "choice",
    why: "a server that gets new tools must not give them to an agent that was allowed the old ones",
  },
  "views:limits": {
    says: "limits of a preset bound the calls per minute of a credential and tool, also behind call_tool; the strictest that applies counts",
    from: "choice",
    why: "an agent in a loop must not use up the budget that all share of an expensive tool",
  },
  "views:old": {
    says: "a preset with a filter alone means what it meant; one that selects nothing is refused",
    from: "choice",
    why: "files of users stay valid",
  },
  "views:union": {
    says: "several presets are evaluated alone, and what they include is united",
    from: "choice",
    why: "roles add up",
  },
  "views:names": {
    says: "names, prefix and separator name tools in a view; a renamed tool is known by its new name alone",
    from: "choice",
    why: "prompts and habits of a team name tools",
  },
  "views:collisions": {
    says: "entries whose names collide keep their qualified names",
    from: "choice",
    why: "a call must not reach another tool than its client means",
  },
  "views:resources": {
    says: "the URI to which a resource template expands is checked when it is read",
    from: "choice",
    why: "a template stands for resources that no list has",
  },
  "views:quiet": {
    says: "a change of what a view leaves out sends no notification to its clients",
    from: "choice",
    why: "a notification would tell that there is more",
  },
  "views:indistinguishable": {
    says: "lists, calls, search, prompts, suggestions and errors of a view are those of servers that have only its entries",
    from: "choice",
    why: "what a client must not use it should not know of",
  },
  "views:credentials": {
    says: "a token may be bound to presets: its view is what both they and the address include, under the names of the address",
    from: "choice",
    why: "an address is a wish, a credential a right",
  },
  "views:shown": {
    says: "svc preset show and why name what a preset selects, the names, the tokens, and the rule that leaves an entry out",
    from: "choice",
    why: "rules are easy to get wrong",
  },
  "secrets:reference": {
    says: "${keychain:NAME}, ${file:PATH} and ${cmd:COMMAND} are replaced by the values of their sources, which svc asks only for servers that are on",
    from: "choice",
    why: "a secret should not have to be in a file that people share",
  },
  "secrets:off": {
    says: "without references, svc loads none of the code that looks up their values",
    from: "choice",
    why: "a start must not pay for what its configuration does not use",
  },
  "secrets:refresh": {
    says: "a reload and svc secret refresh read the values again, and restart exactly the servers whose values have changed",
    from: "choice",
    why: "secrets are rotated",
  },
  "secrets:commands": {
    says: "commands run without a shell, and only if mcp.json of the configuration directory or --allow-commands allows it",
    from: "choice",
    why: "a file that comes with a project must not run programs when it is read",
  },
  "secrets:failure": {
    says: "a reference without a value is an issue of its server, which names the reason and the remedy; other servers run",
    from: "choice",
    why: "one missing secret must not stop the other servers",
  },
  "secrets:slow": {
    says: "a source delays the start for two seconds at most, and is given up after a minute",
    from: "choice",
    why: "a source may ask a person for a fingerprint",
  },
  "secrets:retry": {
    says: "svc asks every minute for a value that it could not get",
    from: "choice",
    why: "svc may start before the keychain is unlocked",
  },
  "secrets:moved": {
    says: "svc offers to move what looks like a key from mcp.json to .env or to the keychain, whatever way it came in",
    from: "choice",
    why: "keys come in settings, arguments and addresses",
  },
  "secrets:hidden": {
    says: "the value of a reference is only in the environment, the arguments or the headers of its server",
    from: "choice",
    why: "logs, reports and errors are shared",
  },
  "env:substitute:places": {
    says: "references are replaced only in command, args, cwd, env values, url, header values and oauth",
    from: "Environment substitution",
  },
  "env:substitute:missing": {
    says: "if a variable is set nowhere, svc leaves the server out and names the variable",
    from: "choice",
    why: "an empty password is worse than no server",
  },
  "env:dotenv:parent-wins": {
    says: "values of the parent environment take precedence over .env",
    from: "Environment substitution",
  },
  "env:dotenv:private": {
    says: ".env does not change svc's own environment, cannot set SVC_*, and reaches only backends that name its variables",
    from: "Environment substitution",
  },
  "env:dotenv:format": {
    says: "quotes, export, comments and values of several lines work as in dotenv",
    from: "Environment substitution",
  },
  "env:dotenv:broken": { says: "a malformed .env is refused; svc keeps the last working environment", from: "Errors" },
  "env:dotenv:control": {
    says: "a .env with a control character other than a tab or a line break is malformed",
    from: "Errors",
  },
  "env:dotenv:unreadable": {
    says: "a .env that is not UTF-8 or cannot be read is refused, and the error names .env; svc keeps the last working environment",
    from: "Errors",
  },
  "env:child:safe": {
    says: "a child gets the safe set, the variables that the filter lets in, and env",
    from: "choice",
    why: "hardly any server starts without PATH and HOME",
  },
  "env:child:inherit": {
    says: "inheritParentEnv without a filter lets in every variable except SVC_*",
    from: "choice",
    why: "servers have no use for svc's own options",
  },
  "env:child:filter": {
    says: "patterns apply in order, and the last match wins; !PATH removes a variable of the safe set",
    from: "choice",
    why: ".gitignore works the same way",
  },
  "env:child:filter-mode": {
    says: "inheritParentEnv false inherits nothing; true with only negative patterns inherits all other variables; if it is omitted, the server inherits what envFilter includes",
    from: "choice",
    why: "false means off, and a list of exclusions alone means everything else",
  },
  "env:child:own": {
    says: "a SVC_* variable reaches a child only through a pattern that begins with SVC_, or through env",
    from: "choice",
    why: "svc's options may be secret, and a broad pattern such as * is not meant for them",
  },
  "env:child:idle-filter": {
    says: "an envFilter without effect is a warning",
    from: "choice",
    why: "a variable that is missing without notice looks like a fault of the server",
  },
  "env:child:repeated": {
    says: "of equal patterns, the first one counts",
    from: "choice",
    why: "a server that merely repeats a default must not let in what the default excludes",
  },
  "env:child:declared": { says: "declared variables are not filtered", from: "Server object" },
  "env:child:array": {
    says: "in an env array, NAME alone takes the value from the parent or .env",
    from: "choice",
    why: "docker -e does the same",
  },

  // Supervision
  "supervise:exit": {
    says: "if a connected child exits, the backend is restarting; its capabilities are withdrawn; its requests fail and are not replayed",
    from: "Supervised backend",
  },
  "supervise:back": {
    says: "once the replacement of a restarting child has initialized, the backend is connected and its capabilities are published again",
    from: "Supervised backend",
  },
  "supervise:limit": {
    says: "after maxRestarts consecutive attempts, the backend is in crash-loop until an operator restarts it, a reload changes it, or svc ends",
    from: "Supervised backend",
  },
  "supervise:attempt": {
    says: "each start that ends counts as an attempt, in either era; an unsupervised server is not started a second time if it would end in the same way",
    from: "choice",
    why: "maxRestarts promises a number of processes",
  },
  "supervise:stable": {
    says: "five healthy minutes reset the attempts and the delay",
    from: "Supervised backend",
  },
  "supervise:restart": {
    says: "an operator's restart happens at once, with a fresh budget",
    from: "Supervised backend",
  },
  "supervise:delay": {
    says: "delays are restartDelay times 1, 2, 4, 8, 16, 16 …",
    from: "Supervised backend",
  },
  "supervise:defaults": {
    says: "the default of maxRestarts is 5, and 0 means unlimited; the default of restartDelay is 1000 ms",
    from: "Limits",
  },
  "supervise:remote": {
    says: "remote backends reconnect with the same delays and without a limit, and are not part of backendSupervision",
    from: "choice",
    why: "networks recover",
  },
  "stderr:capture": {
    says: "svc captures stderr if the setting is omitted, pipe or overlapped, and passes on inherit, ignore and a descriptor",
    from: "Server object",
  },
  "stderr:line": { says: "a captured line has at most 8 KiB", from: "Limits" },
  "stderr:unique": { says: "at most 20 different lines are logged in 10 s", from: "Limits" },
  "stderr:repeats": { says: "repeated lines are summarized every 5 s", from: "Limits" },

  // Protocol
  "protocol:mode:legacy": { says: "legacy uses only the legacy client", from: "Server object" },
  "protocol:mode:modern": { says: "2026-07-28 uses only modern MCP, without fallback", from: "Server object" },
  "protocol:mode:auto": {
    says: "auto tries modern first, and falls back only if the server shows that it is legacy: it answers initialize",
    from: "Server object",
  },
  "protocol:mode:exit": {
    says: "if a server exits on the probe of one era, the next attempt uses the other era; an unsupervised server gets a second start for this, unless it exited before the probe",
    from: "choice",
    why: "the probe must not use up the only start of a server",
  },
  "backend:session:lost": {
    says: "after any refusal of a request in a session of a remote server, svc sends one ping; if that is refused too, svc opens a new session, at most once a minute, and repeats the request if the refusal shows that it was not executed",
    from: "choice",
    why: "servers report a forgotten session with every status and in every wording",
  },
  "backend:session:id": {
    says: "svc takes the session's id from every answer of a remote server",
    from: "choice",
    why: "some servers replace the id, and the SDKs follow them",
  },
  "backend:stream:again": {
    says: "once the stream for a server's own messages has worked, svc reopens it after every refusal except 401, 404 and 405",
    from: "choice",
    why: "without it, changes and requests of the server are lost silently",
  },
  "protocol:mode:unclean": {
    says: "in auto, unless the answer to the probe comes from a modern server, svc sends initialize within the same attempt, and its answer decides; if both are answered with 401, the server needs authorization; the error for a server that did not survive the probe names protocolVersion",
    from: "choice",
    why: "gateways and old servers refuse an unknown method in every possible way",
  },
  "protocol:mode:slow": {
    says: "in auto, a server that has answered both server/discover and initialize is asked again, and legacy if it then refuses server/discover",
    from: "choice",
    why: "initialize changes the era of a whole connection in some servers of both eras, which would refuse every modern request",
  },
  "protocol:era:remembered": {
    says: "svc uses the era that it found when it starts a crashed server again; it probes after a start of svc or an operator's restart, and after an internal error at the probe",
    from: "choice",
    why: "a server that was upgraded in place must not stay in its old era",
  },
  "protocol:own-era": {
    says: "in auto, each request to a remote server that speaks both eras uses a connection of its client's era, which svc opens at the first such request; with a pinned era, with isolation, or with a legacy side without sessions, svc keeps one connection",
    from: "choice",
    why: "a server may support features in only one era; without a session it cannot receive the answers to its requests",
  },
  "protocol:own-era:refused": {
    says: "if a server refuses the other era, svc does not ask again for an hour, unless the server loses its session or its connection",
    from: "choice",
    why: "an attempt for each request would delay all requests, and a permanent verdict would outlive an upgrade of the server",
  },
  "protocol:own-era:failure": {
    says: "if the connection of the other era fails, svc reports this, leaves the server's state and health unchanged, and opens the connection again when it is needed; until then, the first connection serves all clients",
    from: "choice",
    why: "a connection that only some clients use must not make a working server unavailable",
  },
  "protocol:era:relearned": {
    says: "in auto, svc negotiates again if a server refuses a ping in the way of the other era, refuses a ping and then a new connection of the same era, or opens no new session",
    from: "choice",
    why: "otherwise svc would address a server that was upgraded in place in its old era for as long as svc runs",
  },
  "protocol:own-era:tasks": {
    says: "svc asks for a task over the connection that created it; the same id on both connections means two tasks",
    from: "choice",
    why: "a server may number its tasks separately in each era",
  },
  "protocol:own-era:news": {
    says: "updates, list changes, log messages and progress reach each client once, over any open connection",
    from: "choice",
    why: "a server may notify over both connections, or over the one that caused the change",
  },

  "protocol:answer:checked": {
    says: "a frame of a server reaches a client only if it is exactly one valid JSON-RPC message with an object as the result; any other frame fails the call that it names",
    from: "choice",
    why: "a server that could add a member or break the JSON could answer calls to other servers, or make them hang",
  },
  "protocol:id": {
    says: "a request of a session, or of a client on a channel, is refused if a request with the same id is in flight; the first request continues",
    from: "choice",
    why: "otherwise the first request could no longer be cancelled",
  },
  "protocol:result-type": {
    says: "the result of a legacy server is complete for a modern client, whatever resultType it has; if the resultType of a modern server is not a string, or the client lacks the capability for it, the call fails",
    from: "choice",
    why: "a server without state and modern tasks must not present requests to a client through a member that its era does not define",
  },
  "remote:progress-order": {
    says: "svc posts a client's answer to a remote server once the server has accepted the client's progress, or after a second",
    from: "choice",
    why: "each goes in a request of its own, and the official SDK drops progress that comes after the answer",
  },
  "protocol:legacy-words": {
    says: "for a legacy client, svc removes resultType complete, the server's name in _meta, and cache hints from the result of a modern server, and puts structured content that is no object into one",
    from: "choice",
    why: "the client's revision does not define them, and a client that validates results strictly would refuse them",
  },
  "protocol:whose": {
    says: "if a question or a log line may belong to more than one client, no client sees it",
    from: "choice",
    why: "a shared process does not say which client it means, and a wrong guess shows the data of one client to another",
  },
  "protocol:whose:caller": {
    says: "calls without a session belong to one client if principal, rights, view, clientInfo and context are the same; without authentication, only on a loopback address that is not behind a proxy. A question goes out on any of the client's calls that declares the capability, and is answered once; each call gets the log lines of its level, once",
    from: "choice",
    why: "a 2026-era client over HTTP has no session, and its parallel calls must not block each other's questions; the operator gives a credential to one client, and an open loopback port trusts every program on the machine anyway",
  },
  "protocol:whose:held": {
    says: "a question that may belong to several clients waits for up to 30 seconds, and goes to its client as soon as all calls of the others that may have caused it are answered, or their sessions have ended",
    from: "choice",
    why: "clients whose calls only overlap need no process of their own",
  },
  "protocol:whose:gone": {
    says: "a cancelled call counts for 30 seconds, unless it is answered or its client ends its session: a question that comes in this time reaches no other client while the call has no result; a client that was asked and has gone away makes room for others after a minute",
    from: "choice",
    why: "the cancelled call may still ask a question, and neither may block the questions of the other clients forever",
  },
  "protocol:cancelled": {
    says: "a cancelled request gets no answer; over HTTP, its response ends as an empty stream",
    from: "choice",
    why: "receivers should not answer a cancelled request, and a JSON response would have to contain an answer",
  },
  "protocol:stopping": {
    says: "when svc stops, requests that wait for a server, and later requests, get an error that says that svc is shutting down",
    from: "choice",
    why: "a client may drop a tool that is reported as unknown, but tries again if svc is not available",
  },
  "protocol:task": {
    says: "a task belongs to its session, or to its principal if clients have no session, and its id leads to its server",
    from: "choice",
    why: "clients share a server that cannot distinguish them",
  },
  "protocol:task:mark": {
    says: "the id of a task contains a mark that binds it to its owner, also after a restart of svc, and to the process of a shared stdio server, unless the id is a random UUID; an id that svc did not give to this client is unknown. Without authentication, all modern clients are one principal, and only the mark keeps other clients out",
    from: "choice",
    why: "a table of owners is lost with a restart and eventually full, and the ids of a server may be guessable",
  },
  "protocol:task:list": {
    says: "tasks/list contains the tasks of the session that svc remembers: 10,000 of all clients together, where the client with the most tasks loses its oldest first, and 100 per session across a restart; the others are still found by their ids",
    from: "choice",
    why: "a server's own list contains the tasks of all clients, and svc cannot search it for marked ids",
  },
  "protocol:task:capability": {
    says: "a modern client that does not declare the tasks extension in a request about a task gets -32021 with the missing capability, whether the task exists or not",
    from: "choice",
    why: "the extension requires it of a server, and the server behind svc never sees a request for an unknown id",
  },
  "protocol:task:listen": {
    says: "svc polls the servers for the tasks that a modern client listens to, and notifies the client of changes",
    from: "choice",
    why: "servers need not send updates by themselves, and a client that listens need not poll",
  },
  "protocol:page": {
    says: "--pagination divides lists into pages; a cursor continues after its entry even if the catalog changes",
    from: "choice",
    why: "a client in the middle of a list should not have to start over",
  },
  "protocol:stream": {
    says: "if svc cannot resume a stream, it starts a new one",
    from: "choice",
    why: "a 404 would tell the client that its session has ended",
  },
  "protocol:stream:over": {
    says: "a client that reconnects to a stream whose end it has seen gets 204; a request whose stream is lost is answered with an error",
    from: "choice",
    why: "clients reconnect every second until svc tells them that the stream is over",
  },

  // Names and relay
  "name:tool": { says: "tools and prompts are <server>_svc_<name>", from: "Command-line and configuration interfaces" },
  "name:uri": {
    says: "resources are svc://<server>/<URI>, also in results; ui:// keeps its scheme",
    from: "choice",
    why: "two servers may use the same URI",
  },
  "relay:unknown": {
    says: "at /servers/<name>/mcp, svc passes on unknown members beside a list and in the result of the handshake, and unknown notifications from clients",
    from: "choice",
    why: "there, svc represents one server; on /mcp, svc cannot merge the members of several servers without knowing their meaning",
  },
  "relay:streamed": {
    says: "texts, binary data and structured content of more than 64 KiB go to an HTTP client while they arrive from the server, byte for byte",
    from: "choice",
    why: "a large result need not fit into memory, and its first byte need not wait for its last",
  },
  "relay:streamed:same": {
    says: "a result is the same JSON whether it goes to the client while it arrives or is read whole, whatever the names of its members are, and also if some are repeated; svc breaks it off only if it repeats a member whose URIs svc has already changed and sent",
    from: "choice",
    why: "how a server cuts its answer into pieces must change nothing",
  },
  "relay:broken": {
    says: "if svc has begun to pass on an answer that turns out to be invalid, too long, late or unfinished, it breaks the answer off, so that the client sees an error and never a shorter answer",
    from: "choice",
    why: "bytes that were sent cannot be taken back",
  },
  "relay:broken:log": {
    says: "the log says of each answer that svc broke off which server and tool it was of, and why",
    from: "choice",
    why: "its client sees only a closed connection",
  },
  "relay:whose": {
    says: "no byte of a large result goes to a client before the server has written which request it answers: a result with its id behind it is read whole",
    from: "choice",
    why: "a second or a late answer to another client's request may come at any time, even while only one request is open",
  },
  "relay:second": {
    says: "a second answer to a call whose first answer has begun to pass is dropped and logged; the call still ends in time",
    from: "choice",
    why: "a client can get only one answer, and must not wait for ever",
  },
  "relay:numbers": {
    says: "numbers pass in both directions as they are written (9007199254740993, 1.0, -0, 1e400), except that a definition has no numbers beyond the range of doubles; ids are equal if they are written the same",
    from: "choice",
    why: "clients and servers in other languages have numbers that a double cannot represent, and a call whose id changes never returns",
  },
  "tool:hidden": {
    says: "a disabled tool is neither listed nor callable, under its own name or its qualified name",
    from: "Command-line and configuration interfaces",
  },
  "tool:override": {
    says: "a description override changes only the listing; removing it restores the upstream text",
    from: "Command-line and configuration interfaces",
  },
  "tool:override:names": {
    says: "toolDescriptionOverrides accepts the same names as disabledTools, is shown wherever a description is, and warns of a name that matches no tool",
    from: "choice",
    why: "a text that reaches no client must not appear to be effective",
  },
  "tool:overrides": {
    says: "toolOverrides replaces title, annotations, _meta[anthropic/searchHint] and _meta[anthropic/alwaysLoad] of a tool; alwaysLoad and searchHint of a server apply to its other tools; the rest of _meta passes on",
    from: "choice",
    why: "clients that load tools on demand read these members, and few servers set them; a wrong annotation makes clients ask for confirmation needlessly, or not ask at all",
  },
  "context:warnings": {
    says: "svc config check, svc mcp status and mcp_status warn of descriptions over 2,048 characters, tools without a description, names over 64 characters, and more than 100 tools in total",
    from: "choice",
    why: "clients cut, refuse or drop these silently, and the user only sees that a tool is not used",
  },
  "context:characters": {
    says: "svc mcp status, mcp_status and /metrics count the characters that each server adds to the context of a client",
    from: "choice",
    why: "the cost of a server must be visible where its state is",
  },
  "context:tokens": {
    says: "svc tokens counts the tokens of a running svc's tools (name, description, input schema) and instructions, for all servers or one, for all clients or a preset, as a full list and as a lazy view, the most expensive first",
    from: "choice",
    why: "people can only save what they can see, and characters mean little to those who pay for tokens",
  },
  "shell:preset": {
    says: "svc run, inspect, search and instructions take --preset, and then see only what the preset selects, under its names",
    from: "choice",
    why: "a script needs what an assistant would get",
  },
  "shell:inspect": {
    says: "svc inspect shows, in numbers, what the servers of a project offer, what one server offers including its hidden and held-back tools, or one tool with both descriptions, hints, parameters and result; a tool is named server/tool or server_svc_tool, and for an unknown name, the error suggests the nearest",
    from: "choice",
    why: "people must be able to see what a model is given, and what is hidden from it",
  },
  "shell:search": {
    says: "svc search finds tools in the same way as a lazy view, with scores on request, and says how much it searched if nothing matches",
    from: "choice",
    why: "people must be able to see why a model finds a tool or does not",
  },
  "shell:instructions": {
    says: "svc instructions shows the instructions that clients get about all servers, or the whole instructions of one server",
    from: "choice",
    why: "instructions are part of every client's context, and no other command shows them",
  },
  "shell:run": {
    says: "svc run calls a tool with key=value arguments typed by its input schema, key:=JSON, or --args; texts go to stdout unchanged, other content by its type or to --output, the whole result under --json, progress and log messages to stderr",
    from: "choice",
    why: "scripts must be able to use a tool, and people to try one, without writing a client",
  },
  "shell:run:exit": {
    says: "svc run exits with 1 if the tool reports an error, 64 for an unknown tool or wrong arguments, and 69 if the server is down",
    from: "choice",
    why: "a script must distinguish a failed tool from a typing error and from a server that is down",
  },
  "shell:run:cancel": {
    says: "--timeout and Ctrl-C cancel the call of svc run, which then exits with 69 and 130",
    from: "choice",
    why: "a call must not continue if nobody waits for its result",
  },
  "shell:run:elicitation": {
    says: "on a terminal, svc run asks the user the questions of a server; elsewhere, it cancels them with a message",
    from: "choice",
    why: "client: Elicitation: users must see which server asks, and may decline; a script must not hang",
  },
  "shell:run:output": {
    says: "svc run ends without an error if the reader of its output has gone, and with 74 if it cannot write its output",
    from: "choice",
    why: "head closes the pipe early, and a truncated file must not count as complete",
  },
  "shell:project": {
    says: "svc inspect, search, instructions and run see the servers of the project in which they run, as svc proxy does",
    from: "choice",
    why: "the control socket is trusted, and a template has no instance outside of a project",
  },
  "names:slug": {
    says: "in names of tools and in addresses, svc replaces characters of a server's name other than letters, digits, _ and - with -, and uses a short hash if nothing readable would remain; for one release, the former names can still be called (with dots), and remain valid in settings",
    from: "choice",
    why: "model APIs refuse a conversation with a name that has a dot",
  },
  "names:taken": {
    says: "svc does not load a server whose name is written like another server's in names of tools, ends with _svc or begins with svc_; it warns about names that then differ only in - and _",
    from: "choice",
    why: "a call must never reach another server",
  },
  "names:characters": {
    says: "svc warns about names with characters other than letters, digits, _ and -; with --max-tool-name, it replaces these characters and appends a hash of the full name, and clients can still call the tool by its full name",
    from: "choice",
    why: "model APIs refuse such names, and with them all tools",
  },
  "names:shortened": {
    says: "with --max-tool-name, a longer <server>_svc_<name> of a tool or prompt is listed shortened: the part of the server is cut first, and a hash of the whole name is appended; calls may use the whole name too, and settings use only this one",
    from: "choice",
    why: "most models refuse a request with a name of over 64 characters, and with it all tools; if the shortened name depended on the other servers, it would change when a server is added",
  },
  "instructions:budget": {
    says: "the instructions of the aggregate have at most --instructions-budget characters (2,048): how tools are named, one line per server with its purpose, then the servers' own instructions in equal shares",
    from: "choice",
    why: "clients add instructions to every context and cut long ones silently, so the essential part must come first",
  },
  "instructions:unavailable": {
    says: "the instructions of the aggregate name the servers in scope that are not connected, with their states",
    from: "choice",
    why: "a model that misses a tool must know that the tool is unavailable now, not that it does not exist",
  },
  "instructions:whole": {
    says: "the resource svc:instructions/<server> contains the whole instructions of a server, for clients whose scope includes the server; no list contains the resource",
    from: "choice",
    why: "clients must be able to read what was cut, and pay nothing until they do",
  },
  "tool:renamed": {
    says: "when a server is renamed, the qualified names in its disabledTools, toolDescriptionOverrides and toolOverrides become local names",
    from: "choice",
    why: "a hidden tool must not reappear because its server has a new name",
  },
  "tool:disabled": {
    says: "a call of a tool that disabledTools hides is refused with -32602: Tool NAME is disabled",
    from: "choice",
    why: "a model that reads that a tool is disabled does not try other spellings of its name",
  },
  "results:off": {
    says: "without a budget, results pass unchanged, and read_result is not offered",
    from: "choice",
    why: "a feature that is turned off must cost nothing",
  },
  "results:budget": {
    says: "the first of preset, token, server and --result-budget that sets a budget decides; svc run gets whole results",
    from: "choice",
    why: "the budget protects the context of the client, so the setting closest to the client wins",
  },
  "results:cut": {
    says: "a result above its budget is stored and answered with its beginning and end, its shape, what is left out, and a resource_link with size and SHA-256, within the budget",
    from: "choice",
    why: "clients cut large results silently, and every result passes through svc",
  },
  "results:stream": {
    says: "a result above its budget that arrives in pieces behind its id is stored while it arrives, and is never in memory as a whole",
    from: "choice",
    why: "one call must not use up the memory of all",
  },
  "results:stream:same": {
    says: "a result above its budget is answered in the same way whether it is stored while it arrives or read whole; no text can be mistaken for the placeholder of a stored value",
    from: "choice",
    why: "how a server cuts its answer into pieces must change nothing",
  },
  "results:stream:other": {
    says: "a large message other than the result of the call, such as a log message or a server request, passes as without a budget",
    from: "choice",
    why: "a budget limits results alone",
  },
  "results:error": {
    says: "a large result with isError keeps isError and the beginning of its message",
    from: "choice",
    why: "a model must know that the call failed, and why",
  },
  "results:structured": {
    says: "structured content that repeats a text is left out; structured content that an output schema requires is shortened and stays valid, or the result passes whole and the log says so once",
    from: "choice",
    why: "clients refuse an answer that does not match its schema",
  },
  "results:read": {
    says: "read_result reads lines, a range of bytes, the values at a JSONPath and the matches of a regular expression, each answer within the budget",
    from: "choice",
    why: "a model needs parts of the result, and must not be able to request too much",
  },
  "results:read-time": {
    says: "a long grep or path does not block other requests, and stops after 30 s with its findings so far or with advice on how to narrow it",
    from: "choice",
    why: "the model chooses the expression, and must not be able to block svc for everybody else",
  },
  "results:reload": {
    says: "clients are notified of changed tools when a reload adds or removes read_result",
    from: "choice",
    why: "with a budget but without this tool, a client could not read the rest of a result",
  },
  "results:exact": {
    says: "ranges of read_result and of resources/read return exactly the stored bytes, with the SHA-256 of the link",
    from: "choice",
    why: "nobody can rely on a result that svc has changed",
  },
  "results:lazy": {
    says: "a lazy view lists read_result, and also runs it through call_tool",
    from: "choice",
    why: "clients of a lazy view get large results too",
  },
  "results:owner": {
    says: "for another session or principal, a stored result does not exist",
    from: "choice",
    why: "an id that appears in a transcript must not give access to the result",
  },
  "results:disk": {
    says: "results are encrypted on disk, survive a restart of svc, and appear in no log",
    from: "choice",
    why: "the results of tools may be as secret as the credentials that the tools use",
  },
  "results:killed": {
    says: "a result that was only written in part is never visible, and its file is removed",
    from: "choice",
    why: "a process may be killed at any moment",
  },
  "results:ttl": {
    says: "svc deletes a result after --result-ttl, and the oldest results if all together exceed 1 GiB",
    from: "choice",
    why: "nobody else deletes them",
  },
  "results:sizes": {
    says: "svc tokens --results, svc mcp status NAME and /metrics show the median, the 99th percentile and the number of cut results of each tool",
    from: "choice",
    why: "to set budgets, an operator must know which tools need one",
  },
  "results:stated": {
    says: "if a tool without a budget has had a result of more than 100 kB, its definition states anthropic/maxResultSizeChars",
    from: "choice",
    why: "clients that support this member then accept the whole result",
  },
  "lazy:list": {
    says: "with tools=search in the address, the preset, the token or as --tools, tools/list contains search_tools, describe_tool, call_tool and call_read_tool, in under 500 tokens; the first of these places that sets it decides",
    from: "choice",
    why: "thousands of tools fill more of a context window than the conversation; a list must not depend on the connection",
  },
  "lazy:pinned": {
    says: "tools that match alwaysVisible of their server or of the preset stay in the list of a lazy view",
    from: "choice",
    why: "a model should not have to search for a tool that every conversation uses",
  },
  "lazy:pinned:names": {
    says: "at the address of its server, a pinned tool with the name of one of svc's search tools is not listed; call_tool runs it",
    from: "choice",
    why: "a list contains each name once, and the meaning of these names must not depend on the server",
  },
  "lazy:answer": {
    says: "an answer of the search tools has at most 40,000 characters, describes each name once, and says what it leaves out and how to get it",
    from: "choice",
    why: "clients cut or refuse longer results, and the schemas of one server must not fill a context window",
  },
  "lazy:search": {
    says: "search_tools returns one line of at most 60 tokens per tool, best first, 8 by default, with a heading whenever the server changes, and the instructions of each server once; if nothing matches, it says what was searched and which servers there are",
    from: "choice",
    why: "a model that only reads that nothing was found guesses names",
  },
  "lazy:scope": {
    says: "searches, descriptions, similar names and counts reveal nothing outside the client's view",
    from: "choice",
    why: "a search must not reveal the tools of another client",
  },
  "lazy:internal-tools": {
    says: "a lazy view does not list the tools of --internal-tools, but the search finds them",
    from: "choice",
    why: "clients seldom use them",
  },
  "lazy:describe": {
    says: "describe_tool, and get_tool_details, which is not listed, return whole definitions with overridden descriptions",
    from: "choice",
    why: "a signature on one line cannot represent every schema",
  },
  "lazy:unlisted": {
    says: "in a lazy view, clients can call tool_list, tool_schema and tool_invoke, which are not listed",
    from: "choice",
    why: "clients of the described system use them",
  },
  "lazy:call": {
    says: "a call through call_tool is handled as the direct call: progress, cancellation, elicitation, tasks, structuredContent and errors are the same, in both eras",
    from: "choice",
    why: "a second code path for calls would behave differently from the first",
  },
  "lazy:call:tolerant": {
    says: "call_tool takes arguments as an object or as JSON text, also under args, parameters, params or input or beside the name, and the name also under tool_name, toolName or tool or among the arguments; it drops no argument, and refuses two values for the same argument",
    from: "choice",
    why: "models write calls in these ways",
  },
  "lazy:call:server": {
    says: "if a call names a server beside the tool, svc only runs a tool of this server",
    from: "choice",
    why: "a call that runs on another server than the one it names does harm",
  },
  "lazy:call:arguments": {
    says: "svc does not refuse arguments that violate the schema; if a call through call_tool fails and its arguments do not match the schema, the error lists the parameters",
    from: "choice",
    why: "servers are more lenient than their schemas, and after a failure, a model that has not seen the schema needs it",
  },
  "lazy:call:read": {
    says: "call_read_tool runs only listed tools that are annotated read-only, by the server or an override, at every address; it refuses all other names",
    from: "choice",
    why: "users let clients run tools that are annotated read-only without asking",
  },
  "lazy:unknown": {
    says: "in a lazy view, the error for an unknown name suggests the three nearest names, or gives the reason if the server is not connected or svc holds the tool back; through call_tool, the error is an isError result",
    from: "choice",
    why: "a model corrects itself by what it reads in a result",
  },
  "tool:unknown": {
    says: "a call of an unknown tool gets -32602 with the nearest name",
    from: "choice",
    why: "typing errors are common",
  },
  "tool:unlisted": {
    says: "at /servers/<name>/mcp, svc relays calls of tools and prompts that the server does not list, unless the server has disabledTools, strict pinning, or its own process for the session",
    from: "choice",
    why: "a server may accept names that it lists to nobody, and its own error is more precise; but another spelling must not lead to a tool that svc hides from clients",
  },
  "tool:server-down": {
    says: "a call to a server that is not available gets an error that names the server",
    from: "choice",
    why: "the model must know which server caused the failure",
  },

  // Reload
  "reload:file": {
    says: "changes of the file apply without a restart of svc",
    from: "Command-line and configuration interfaces",
  },
  "reload:dotenv": {
    says: "a change of .env restarts exactly the servers whose resolved values have changed",
    from: "Command-line and configuration interfaces",
  },
  "reload:untouched": {
    says: "a reload does not restart servers whose launch has not changed",
    from: "Command-line and configuration interfaces",
  },
  "reload:metadata": {
    says: "changes of tags, hidden tools and descriptions restart nothing, and reach clients as list_changed",
    from: "Events",
  },

  // Inbound
  "inbound:listen": {
    says: "svc listens on 127.0.0.1:3050 by default; to listen elsewhere without authentication, it needs --allow-unauthenticated",
    from: "choice",
    why: "the default must be secure",
  },
  "inbound:origin": {
    says: "requests with a foreign Host or Origin are refused",
    from: "choice",
    why: "a web page must not reach a local svc",
  },
  "inbound:order": {
    says: "svc checks CORS, Host and Origin, authentication, and limits, in this order, before it answers anything",
    from: "choice",
    why: "a refused request must learn nothing, cost nothing, and get the same answer whatever it asked for",
  },
  "inbound:errors": {
    says: "errors are JSON-RPC errors on MCP paths and {error} on all other paths, whichever check refuses the request",
    from: "choice",
    why: "a probe of /health does not understand JSON-RPC, and an MCP client understands nothing else",
  },
  "auth:tags:streams": {
    says: "when a server loses the tag of a token, the token's open streams receive nothing more from it, at every address, except the progress and the answers of calls that are already running",
    from: "choice",
    why: "a stream that outlives a right would give it for as long as the client keeps the stream",
  },
  "connect:link": {
    says: "if a client's file is a symbolic link, or is behind one, svc connect names the target when it asks and when it reports, and says whether it is outside the project",
    from: "choice",
    why: "a repository can contain a link to any file of the person who works in it",
  },
  "files:regular": {
    says: "svc reads a file that a repository or another program chose only if it is a regular file of limited size",
    from: "choice",
    why: "a link to a device fills the memory, and a pipe blocks a command forever",
  },
  "inbound:foreign": {
    says: "a page of another site can load nothing without an Origin, and uses up no limit of the people and programs on its machine",
    from: "choice",
    why: "every page that a browser opens can make it request a loopback port, thousands of times",
  },
  "inbound:slash": {
    says: "a slash at the end of an address changes nothing, and needs no redirect",
    from: "choice",
    why: "people and programs write addresses with and without it, and many clients follow no redirect of a POST",
  },
  "inbound:prefix": {
    says: "if the path of --external-url is not empty, a proxy may remove it: /sse names its endpoint relative to itself, and the metadata of a resource has the path once",
    from: "choice",
    why: "one host often publishes several services under paths, and svc behind such a proxy sees no path",
  },
  "session:unknown": {
    says: "a request in an unknown session is answered with 404, the code -32001 and the id of the request, or null for a notification or a batch",
    from: "choice",
    why: "clients open a new session only at the answer that the official servers send",
  },
  "protocol:silent": {
    says: "if a request is not answered within 15 s and its client accepts event streams, svc sends the status and an event stream with comments; the last event is the answer or the error",
    from: "choice",
    why: "proxies close connections after a minute of silence, and some clients after five",
  },
  "protocol:event": {
    says: "each event with an MCP message is named message",
    from: "choice",
    why: "some clients ignore events without a name",
  },
  "inbound:rest": {
    says: "POST /mcp with {tool, arguments} runs the tool; a body with either member and neither jsonrpc nor method is such a call, even if it is malformed",
    from: "Internal tool invocation",
  },
  "inbound:query": {
    says: "tags, tag-filter, preset and app in the query of /mcp select the view",
    from: "choice",
    why: "one URL can serve many views",
  },
  "auth:open": { says: "/health, /health/live and /health/ready need no authentication", from: "Authentication 1" },
  "auth:enabled": {
    says: "authEnabled reports whether authentication is on",
    from: "Authentication 2",
  },
  "auth:paths": {
    says: "with --auth, all paths except /health, /health/live and /health/ready need a token; /health/mcp needs one except at minimal",
    from: "choice",
    why: "load balancers have no token, and reports that contain names are not public",
  },
  "auth:tags": {
    says: "a token with tags shows the servers that have one of them, and none of svc's own tools",
    from: "choice",
    why: "a team shares one svc, but not every server in it",
  },
  "auth:session": {
    says: "a session belongs to its principal; for other principals it does not exist",
    from: "choice",
    why: "a leaked session id must be worthless",
  },
  "auth:identity": {
    says: "to use a session, a stream or a waiting call, the kind of its holder, the name, the issuer and the rights of the token must be the same",
    from: "choice",
    why: "a weaker token, or the token of a client whose name is spelled like that of a user, must not use the rights of the token that opened the session",
  },
  "auth:oauth": {
    says: "svc checks signature, issuer, audience, time and scopes of the tokens of --auth-issuer",
    from: "choice",
    why: "a resource server that omits one of these checks accepts tokens that are not meant for it",
  },
  "auth:token-type": {
    says: "svc accepts only access tokens of exactly this issuer: typ at+jwt, or JWT or no typ if the token has no claims of another kind; a token that is bound to a key is not a bearer token",
    from: "choice",
    why: "an issuer signs ID tokens with the same keys and gives them to parties that must not call svc; many issuers set no type for access tokens",
  },
  "auth:groups": {
    says: "with --auth-groups, the groups in a claim of an issuer's token decide what its holder sees, by the presets that name them; scopes add nothing, and a holder without a known group sees nothing",
    from: "choice",
    why: "a client chooses its scopes, and a directory decides about groups",
  },
  "auth:scopes": {
    says: "a token of an issuer opens the servers without tags and those with a tag NAME for which it has the scope tag:NAME; svc:admin opens all; with --auth-scopes off, every token opens all",
    from: "choice",
    why: "a client chooses the scopes that it requests, and must not see more by requesting fewer",
  },
  "auth:awaiting": { says: "a backend that requires OAuth is awaiting_oauth", from: "Authentication 3" },
  "oauth:login": {
    says: "after the user has opened the sign-in address once, the server connects, and nothing else restarts",
    from: "choice",
    why: "the specification says that a server may need OAuth, but not how it gets it",
  },
  "oauth:refresh": {
    says: "svc renews tokens silently, one renewal at a time; a failure that does not concern the token does not discard it",
    from: "choice",
    why: "users must not have to sign in again because a server was down for a minute",
  },
  "oauth:terminal": {
    says: "if a server refuses a new token, svc stops asking for tokens and reports the reason",
    from: "choice",
    why: "asking again would only repeat the same steps",
  },
  "cli:config:annotations": {
    says: "in GitHub Actions, svc config check prints each issue as an annotation of its line",
    from: "choice",
    why: "a reviewer sees the mistake where it is",
  },
  "tools:named": {
    says: "commands that hide, show or describe tools take server/tool, qualified names, unique names and patterns",
    from: "choice",
    why: "people copy the names of tools from clients, presets and lists",
  },
  "protocol:roots": {
    says: "svc offers a server that clients share roots without listChanged, also while it has one client; a client's own process gets what the client offers",
    from: "choice",
    why: "a capability is a promise: a shared server would treat one client's roots as the roots of all",
  },
  "relay:list-meta": {
    says: "at a server's own address, the server answers a list whose _meta contains more than what svc reads itself, and its _meta comes back",
    from: "choice",
    why: "_meta is for extensions that svc does not know, such as variants of a server; a copy of the usual list would be the wrong answer",
  },
  "relay:decides": {
    says: "resources/subscribe, and logging/setLevel at a server's own address, are answered with what the server decided",
    from: "choice",
    why: "a client that is told yes waits for updates that never come",
  },
  "oauth:refused": {
    says: "if an authorization server refuses a renewal, other than for the moment, or answers without an access token, svc asks for a sign-in; it first repeats the renewal with the granted scope",
    from: "choice",
    why: "each server has its own error codes, and a sign-in that has ended must not look like one that holds",
  },
  "oauth:foreign-answers": {
    says: "a sign-in succeeds at servers with odd answers that can mean only one thing, and otherwise fails with one line that names the host",
    from: "choice",
    why: "servers in all languages write absent members as null or empty, and answer web pages at any address",
  },
  "oauth:dpop": {
    says: "svc binds tokens to a key, which it stores with them, if the server asks for it or supports it, or if dpopBoundAccessTokens requires it; each request has a new proof with the last nonce that the server gave",
    from: "choice",
    why: "a bound token is useless to others, but a server that does not declare support would refuse it",
  },
  "oauth:workload": {
    says: "jwt-bearer reads the assertion from a file or variable for each token, and sends it only to the authorization server that it is meant for; svc reports a refusal and does not try again",
    from: "choice",
    why: "platforms rotate their tokens, and a remote server could name an authorization server that collects them",
  },
  "oauth:enterprise": {
    says: "token-exchange exchanges the user's ID token at its issuer for a grant for the server, and redeems the grant at the server's authorization server",
    from: "choice",
    why: "the identity provider of the company decides which servers its users may use, without a sign-in for each server",
  },
  "secrets:file": {
    says: "tokens are stored in a file with mode 0600 in a folder with mode 0700",
    from: "choice",
    why: "the specification does not say where they are stored",
  },
  "secrets:sealed": {
    says: "with SVC_STATE_KEY, this file is encrypted",
    from: "choice",
    why: "an attacker may be able to read the disk but not the process",
  },
  "secrets:keychain": {
    says: "if the system has a keychain, it stores the key of the file",
    from: "choice",
    why: "on Windows, entries of the keychain are small: the key fits, tokens may not",
  },
  "secrets:refused": {
    says: "svc refuses a file or folder of secrets that other users can read, or that is a symbolic link, and says what to do",
    from: "choice",
    why: "a secret that others may have read or written is no longer secret",
  },

  // Templates
  "template:render": {
    says: "svc renders the strings of mcpTemplates with if/else, eq and and",
    from: "Templates",
  },
  "template:namespaces": {
    says: "the namespaces are project, user, transport and context",
    from: "Templates",
  },
  "template:data": {
    says: "an expression can only read the context: it cannot call functions, and there are no lookups, loops, partials or decorators",
    from: "choice",
    why: "a template decides which command runs, so readers must see at a glance what it can do",
  },
  "template:missing": {
    says: "a known value that is not set renders as empty, and is false as an argument; an unknown name is an error, as is a name below project.custom that no .svcrc sets",
    from: "choice",
    why: "projects without .svcrc or git also get their servers, and misspelled names are noticed",
  },
  "template:environment": {
    says: "a $ in a context value stays a $; only references that are complete in the template's own text are replaced",
    from: "choice",
    why: "a client's context must not read svc's environment",
  },
  "template:key": {
    says: "equal renderings have the same id, and an edit of parts without expressions keeps the id",
    from: "choice",
    why: "hidden tools and tags of a template must be changeable without a restart",
  },
  "svcrc:search": {
    says: "svc searches for .svcrc up to the root of the repository or the home directory; outside of both, it only looks in the directory itself",
    from: "choice",
    why: "a file in a shared folder such as /tmp must not apply to the projects below it",
  },
  "svcrc:wrong": {
    says: "svc reports a malformed .svcrc and keeps its last valid content; at first, the file counts as empty",
    from: "choice",
    why: "because of a missing comma, a client must neither lose servers nor see more of them",
  },
  "svcrc:preset": {
    says: "if a .svcrc names an unknown preset, the error contains the file with the line, and the nearest preset or those that exist",
    from: "choice",
    why: "nothing in the command names the file, which may be in a folder above",
  },
  "proxy:start:failed": {
    says: "if svc does not start, svc proxy --start shows the reason and fails the requests that wait",
    from: "choice",
    why: "a client shows its user the error of a request, not a log file",
  },
  "proxy:start:load": {
    says: "if svc proxy --start has started svc, and no server is ready after --startup-wait, the requests of clients wait until one is, for up to 20 seconds from the start",
    from: "choice",
    why: "a package runner may have to download the servers first, and a client that gets an empty list may not ask again",
  },
  "proxy:start": {
    says: "--start starts svc if none answers, and again after svc was killed; an svc that was stopped stays stopped",
    from: "choice",
    why: "files that a killed svc left behind must not look like a running svc, and a user who stops svc has a reason",
  },
  "filter:exact": {
    says: "tags are compared exactly; expressions consist of and, or, not, parentheses and quotes",
    from: "choice",
    why: "access may depend on tags, so the rule must have no surprises",
  },
  "audit:log": {
    says: "--audit-log writes a line for each call and change: who, what, and the outcome; arguments only with --audit-arguments",
    from: "choice",
    why: "operators of a shared svc must be able to find out who did what",
  },
  "audit:denied": {
    says: "the line of a call has the client's address, unless svc listens on loopback without a trusted proxy, and the outcome denied if only the client's token prevents the call, with the server's own name of the tool, prompt or resource; the client gets the same error as for an unknown name",
    from: "choice",
    why: "an attempt to use what a token does not include must not look like a typing error, and the client must not learn what exists",
  },
  "audit:gap": {
    says: "lines that cannot be written are counted exactly: in a line of their own once the file can be written again, in the log if it cannot until the end; a line that was cut off spoils no other",
    from: "choice",
    why: "a gap in an audit log must be seen, and as large as it is",
  },
  "auth:refused": {
    says: "each request without a valid token is a line in the log and the audit log, with address and reason; a flood is only counted",
    from: "choice",
    why: "operators and tools such as fail2ban must see attempts, and a flood must not displace all other lines",
  },
  "auth:token:revoked": {
    says: "tokens.json keeps the ids of revoked tokens until they would have expired, or for a year; an entry with such an id is refused, and files without such ids stay valid",
    from: "choice",
    why: "other replicas may not know of the revocation yet, and a backup must not bring the token back",
  },
  "auth:token:trace": {
    says: "while svc runs, each token that is created, changed or revoked is a line in the audit log with what it gives access to, and the lines of calls contain the name of the token beside its id",
    from: "choice",
    why: "operators know people by name, and an editor can change the file as well as a command can",
  },
  "config:gone": {
    says: "when svc starts, it removes the logs and sessions of a configuration of the same directory whose file is gone and that was unused for a week",
    from: "choice",
    why: "the digests in their names no longer lead to a configuration, but a drive that is missing for a day must not lose its logs",
  },
  "auth:metrics-only": {
    says: "svc auth token create --metrics-only creates a token that can read /metrics and nothing else",
    from: "choice",
    why: "metrics name all servers, so a token with tags cannot read them; a monitoring system needs no access to tools",
  },
  "auth:clear-text": {
    says: "if svc requires tokens and listens beyond loopback without TLS and without an https --external-url, it warns that clients send their tokens in clear text",
    from: "choice",
    why: "whoever reads a token on the network can use it, and nothing else shows that the connection is not encrypted",
  },
  "auth:token:warn": {
    says: "svc auth token create warns of a token without a name, without tags or without expiry, and of tags that no server has",
    from: "choice",
    why: "such a token works, so nobody would notice the mistake",
  },
  "auth:tokens:refused": {
    says: "if tokens.json is malformed or others can read it, svc serve --background --auth and svc mcp status say that all tokens are refused, and svc config check warns of it",
    from: "choice",
    why: "svc runs, but lets no client in, and only its log would say why",
  },
  "auth:token:name": {
    says: "names of tokens are unique; --replace revokes the token that already has the name",
    from: "choice",
    why: "a name must mean one token, in the audit log and in svc auth token revoke",
  },
  "disk:full": {
    says: "a full disk affects only what needs the disk: sessions go on, and svc writes sessions and pins as soon as it can",
    from: "choice",
    why: "a disk that is full for an hour must cost nothing afterwards",
  },
  "isolation:idle": {
    says: "with isolation \"session\", a session's process ends after idleTimeout (10 minutes) without a call; the session's next call starts another process, and says that the state of the old one is lost",
    from: "choice",
    why: "most clients never end their sessions, and their processes would fill the machine",
  },
  "isolation:end": {
    says: 'with isolation "session", a process ends with its session, also while it works on a task',
    from: "choice",
    why: "a task of 2025 belongs to its session: after the session, nobody could ask for its result",
  },
  "isolation:bound": {
    says: "at most maxProcesses (50) processes of a server belong to single sessions: the process that was unused the longest makes room, but never one in use",
    from: "choice",
    why: "a client that opens sessions in a loop must neither fill the machine nor end processes that others are using",
  },
  "limit:rate": {
    says: "rateLimit and --session-rate-limit limit the calls per minute, and a refusal says how long to wait: with 429 and Retry-After if a script calls a tool. A refusal because of rateLimit has the outcome rate_limited and no duration",
    from: "choice",
    why: "one client in a loop must not make a server unavailable to others",
  },
  "tool:diff": {
    says: "REST and svc mcp tools approve show how the definition of a tool has changed since it was first seen or approved, and approve only the change that was shown",
    from: "choice",
    why: "approving a change that nobody has seen protects nobody",
  },
  "tool:pinning": {
    says: "svc reports a tool that has changed since it was first seen, and with toolPinning strict, hides it until it is approved",
    from: "choice",
    why: "a server that turns malicious after it was trusted must be noticed before it is used",
  },
  "template:precedence": { says: "a template takes precedence over a server of the same name", from: "Templates" },
  "template:failure": {
    says: "strict refuses the reload, graceful leaves out the template",
    from: "Templates",
  },
  "template:failure:first": {
    says: "the first load checks all templates; strict refuses the load, even if validateOnReload is false",
    from: "choice",
    why: "that setting concerns reloads, and a start must not hide what a later reload would refuse",
  },
  "template:fixed": {
    says: "a template that uses neither the project nor the client runs like a server, under its own name, and is offered to every client",
    from: "choice",
    why: "nothing that a client could choose affects what it runs",
  },
  "template:project": {
    says: "text from a context cannot begin an option, a working directory or a host, cannot be program text (sh -c, node -e …) or the program, package or script of a launcher (npx, docker run …), and cannot be in a variable for options, code or search paths, unless the template says {{raw …}}",
    from: "choice",
    why: "a cloned repository (.svcrc, branch, folder, git user) must not choose what runs",
  },
  "template:instances": {
    says: "instances are supervised separately and keep their identity and members",
    from: "Supervised backend",
  },

  // Internal tools and commands
  "tools:discovery": {
    says: "the tools for discovery are mcp_search, mcp_registry_status, mcp_registry_info, mcp_registry_list and mcp_info",
    from: "Internal tools",
  },
  "tools:installation": {
    says: "the tools for installation are mcp_install, mcp_uninstall and mcp_update",
    from: "Internal tools",
  },
  "tools:install:config": {
    says: "mcp_install with a command or a url in config installs exactly this, asks no registry, and never merges a registry entry into it",
    from: "choice",
    why: "config is the only argument that the specification shows for a custom source, and the user agrees to one source",
  },
  "tools:codes": {
    says: "each failure of an internal tool has one of the codes not_found, invalid_argument, conflict, confirmation_required, declined, registry_unavailable, rolled_back and internal, which its output schema lists; if an action needs a person and none can be asked, the code is confirmation_required",
    from: "choice",
    why: "an assistant uses the code to decide what to do next",
  },
  "tools:changes": {
    says: "mcp_edit lists every written change: the new name, effective values, and values without an effect; the status in the answer is that of mcp_status",
    from: "choice",
    why: "an assistant that reads of no change tries again, and two words for one state look like a contradiction",
  },
  "tools:management": {
    says: "the tools for management are mcp_enable, mcp_disable, mcp_list, mcp_status, mcp_reload and mcp_edit",
    from: "Internal tools",
  },
  "tools:confirm": {
    says: "before something new or something that was disabled may run, a person is asked with the exact command; if nobody can be asked, the action is refused (confirmation_required), unless --confirm-installs is off",
    from: "choice",
    why: "an assistant must not decide alone what runs",
  },
  "tools:confirm-edits": {
    says: "an edit of descriptions, hidden tools, tags or names, and enabling, disabling and uninstalling, need the consent of a person, as installations do, unless --confirm-edits is off",
    from: "choice",
    why: "the model of every client reads what one assistant writes there",
  },
  "tools:shown": {
    says: "the question shows command, arguments, environment, headers, folder, file and what serverDefaults adds, uncut; it hides only secrets that the person typed at a terminal or keeps in mcp.json, never a value that an assistant passed",
    from: "choice",
    why: "malicious code hides in values that a registry, a file or an assistant calls secret, and behind text that is cut off",
  },
  "tools:agreed": {
    says: "an installation or update runs exactly what was shown at the terminal: if the registry, the values or mcp.json result in another server in the meantime, nothing changes (conflict)",
    from: "choice",
    why: "the installation asks the registry again, and the registry may answer differently each time",
  },
  "tools:form": {
    says: "the form that asks a person has no default, and only confirm: true means consent",
    from: "choice",
    why: "a client that fills in defaults would consent for the person",
  },
  "tools:zero": {
    says: "hiding the last visible tool of a server needs confirmation: a prompt or --yes, or confirmZeroTools; so does adding a server with all its tools hidden",
    from: "choice",
    why: "a server without tools looks broken, and nobody intends this in passing",
  },
  "connect:formats": {
    says: "svc connect writes the configuration of each client in the form that the client documents, over HTTP if the client accepts an address, otherwise as `svc proxy`, and leaves all other bytes unchanged",
    from: "choice",
    why: "the file belongs to the client and its user, and an entry that the client does not understand is useless",
  },
  "connect:shown": {
    says: "svc connect and svc disconnect show the change without secrets and ask for consent; --yes does not ask, and --dry-run changes nothing",
    from: "choice",
    why: "they write files of other programs",
  },
  "connect:leftovers": {
    says: "temporary copies that killed commands left beside the files of clients and their backups are removed by the next connect, by serve and by doctor --fix; a change is recorded before the file is written",
    from: "choice",
    why: "they contain keys, and nobody looks for them",
  },
  "connect:undo": {
    says: "svc connect keeps a copy of the original file; --undo restores it byte for byte, or removes only svc's changes if the file was edited elsewhere, and is refused if these changes or the copy were edited",
    from: "choice",
    why: "an undo must not revert the edits of others, and a damaged copy must not replace the file",
  },
  "connect:lists": {
    says: "svc connect adds svc to the list of the only servers that Gemini CLI starts, and takes it from the list of those that it does not; svc disconnect takes it from the first again",
    from: "choice",
    why: "otherwise the client is connected in its file, and never starts svc",
  },
  "connect:preset": {
    says: "svc preset delete names the clients whose entry selects the preset, and how to connect them again",
    from: "choice",
    why: "svc refuses them, and they only show that svc has no tools",
  },
  "connect:gone": {
    says: "svc connect and svc disconnect take an entry named svc for their own if its address is on this machine and nothing listens there; an import skips it",
    from: "choice",
    why: "svc doctor says to correct such an entry with svc connect, and a person may have copied the address by hand",
  },
  "connect:untouched": {
    says: "svc connect does not change a malformed file, and reports line and column; for a file that it cannot edit safely, it shows the entry to add by hand; an entry of another server keeps its name",
    from: "choice",
    why: "svc cannot know what the user meant there",
  },
  "connect:replace": {
    says: "svc connect --replace removes exactly those entries of the client that are equal, with references resolved, to a server that svc serves to it",
    from: "choice",
    why: "otherwise each server would run twice, and the client would list each tool twice",
  },
  "connect:token": {
    says: "if svc requires a token, svc connect creates one for the client, named after it, and never writes it to a file of a project; removing the entry revokes the token",
    from: "choice",
    why: "each client can be cut off separately, and files of a project are shared",
  },
  "connect:own-command": {
    says: "svc connect uses the client's own command if it exists, no token must be passed, and the file has no comments or formatting to lose; svc then checks the file to see whether it worked",
    from: "choice",
    why: "the command respects the client's own locks, but rewrites the file, and others can read its arguments",
  },
  "import:scopes": {
    says: "svc config import and svc setup name the servers of projects in Claude Code's own file, and import them only with --project, because svc then offers them in every project",
    from: "choice",
    why: "`claude mcp add` writes there by default; a database of one project must not appear in another one unasked",
  },
  "import:same": {
    says: "two entries are the same server if they run the same command, or reach the same address, with the same settings, after references are resolved",
    from: "choice",
    why: "names say nothing: clients use different names for the same server, and the same name for different servers",
  },
  "config:self": {
    says: "a server entry that leads back to this svc is refused with an issue that names it: svc's address in any spelling, a bridge to it, and svc proxy or svc serve --transport stdio for the same configuration",
    from: "choice",
    why: "svc would serve its own tools twice, and at the start wait for itself",
  },
  "import:chosen": {
    says: "svc config import --only imports only the named servers of its list, under their names in it, and refuses a name that is not there",
    from: "choice",
    why: "a person may want two of the ten servers of a client",
  },
  "import:names": {
    says: "svc config import leaves out a server that svc already has, and says under which name; if the name is taken by another server, it appends a number",
    from: "choice",
    why: "clients use the same few names for different servers, and several clients contain the same server",
  },
  "import:self": {
    says: "svc config import never imports svc itself, which it recognizes by its address, by an svc that answers at the address, or by its command",
    from: "choice",
    why: "svc would serve its own tools twice",
  },
  "import:secrets": {
    says: "svc config import moves secrets to .env, and asks for the values of ${input:…}; without a terminal, it refers to a variable and names it",
    from: "choice",
    why: "mcp.json is shared and shown, and a server does not understand a prompt of VS Code",
  },
  "import:offer": {
    says: "svc config import ends with the commands that make each client it has read use svc instead of the imported servers",
    from: "choice",
    why: "otherwise each server runs twice",
  },
  "import:project": {
    says: "svc config import reads the files of the working directory only with --project, says whose they are, and shows every command that would run before it asks",
    from: "choice",
    why: "a cloned repository must not add servers merely because the user runs the command there",
  },
  "tools:rollback": {
    says: "after an installation or update whose server does not connect, mcp.json, .env and the backups are unchanged, byte for byte",
    from: "choice",
    why: "every edit must be reversible",
  },
  "tools:bundles": {
    says: "a bundle (MCPB) is installed only if its registry entry has its sha256 and the download matches it; its files stay in its folder, and are removed with the server",
    from: "choice",
    why: "a bundle is a program from an unknown source, and only svc looks after its files",
  },
  "tools:secrets": {
    says: "secrets of an installed server are in .env, mcp.json refers to them, and secrets of two servers never mix",
    from: "choice",
    why: "mcp.json is shared and shown",
  },
  "registry:stale": {
    says: "if a registry fails, the answer is registry_unavailable, or the cached answer with its age",
    from: "choice",
    why: "an unavailable registry is not an empty one",
  },
  "registry:known": {
    says: "if no registry can be reached and the cache has no answer, mcp_search, mcp_info and mcp_install use a dated list of well-known servers that is part of svc, and a warning says so; an update never uses it",
    from: "choice",
    why: "a first look at svc should not fail because of a proxy, but a list that ages must not replace what a registry says",
  },
  "registry:status": {
    says: "for a server that is deprecated or deleted, searches, mcp_info and the page show the registry's reason, which may name a replacement",
    from: "choice",
    why: "people should not install what its authors have given up",
  },
  "serve:log:wrap": {
    says: "on a terminal, the lines of the log of svc serve and of svc logs wrap at words; in a file or a pipe, each event is one line",
    from: "choice",
    why: "a terminal breaks words",
  },
  "cli:tools": {
    says: "svc mcp tools list shows the tools, and disable and enable edit the file",
    from: "Command-line and configuration interfaces",
  },
  "cli:tools:offline": {
    says: "without a running svc, svc mcp tools list shows the hidden tools and those that svc has seen, and marks hidden names that match no tool as gone",
    from: "choice",
    why: "the content of the file needs no running server, and people must notice a name that hides nothing",
  },
  "cli:status": {
    says: "svc mcp status --verbose shows the effective merged configuration",
    from: "Command-line and configuration interfaces",
  },
  "cli:status:typed": {
    says: "in svc mcp status --verbose --json and in mcp_status, effective values keep their types and include built-in defaults, the section of each value, and a mark on values without an effect",
    from: "choice",
    why: "scripts compare numbers and lists, and people should notice values without an effect",
  },
  "config:timeout:defaults": {
    says: "svc warns if the timeout of a server is overridden by requestTimeout or connectionTimeout of serverDefaults",
    from: "choice",
    why: "by rule 4, the server inherits the settings that it does not have, although its timeout was meant to apply",
  },
  "config:disabled-pattern": {
    says: "svc warns of an entry of disabledTools that looks like a pattern",
    from: "choice",
    why: "its author believes that tools are hidden that are not",
  },
  "cli:health": {
    says: "if svc is unhealthy only because servers are in their first start, svc health says starting instead of unhealthy, and exits with 75 instead of 69; it names these servers, shows the issues of the configuration, and shows an svc without servers as running; --wait names the servers that it does not wait for",
    from: "choice",
    why: "people must not mistake a start for a failure, or a refused file for health",
  },
  "cli:health:all": {
    says: "svc health --all exits with 75 while a server is in its first start, and with 69 unless every enabled server is healthy and none is left out because of an error; it names those that are left out",
    from: "choice",
    why: "a pipeline that needs all of its servers must not continue without one; svc health alone tolerates some failures",
  },
  "cli:health:own": {
    says: "svc health reports on the svc of its configuration, or on the one that --url or SVC_PORT names",
    from: "choice",
    why: "the state of another svc at the default port is irrelevant",
  },
  "cli:config:missing": {
    says: "if the file that --config names does not exist, this is an error (78); serve --init creates it, and otherwise svc creates only the default file",
    from: "choice",
    why: "because of a typing error, svc must not serve an empty configuration instead of the intended one",
  },
  "cli:add": {
    says: "svc mcp add takes a program with or without --, variables before it, a URL, and the flags of the mcp add of other clients",
    from: "choice",
    why: "people paste lines from the README of a server",
  },
  "cli:add:address": {
    says: "after --url, a host gets https and this machine http; a word that may be a program or an address is refused, and the error shows both spellings",
    from: "choice",
    why: "a wrong guess would run a program, or send a credential without TLS",
  },
  "import:secrets-hidden": {
    says: "the question of svc config import hides secrets from the client files of the user, and shows the values from files of a project and other files",
    from: "choice",
    why: "terminals are recorded and shared, but a value that a repository sets may be code",
  },
  "connect:external": {
    says: "svc connect writes the --external-url of the running svc as its address",
    from: "choice",
    why: "clients may only be able to reach svc through the proxy",
  },
  "tools:several": {
    says: "svc mcp tools list without SERVER lists the tools of all servers; disable and enable take several tools of a server, in one edit",
    from: "choice",
    why: "svc tools without an argument means all tools, and after each edit, clients read the list of tools again",
  },
  "cli:config:restore": {
    says: "on a terminal, svc config restore shows the difference without secrets and asks, unless --yes is given; without a terminal, it restores at once",
    from: "choice",
    why: "without an argument, people do not see which backup replaces the file",
  },
  "cli:add:flags": {
    says: "svc's own flags after a program without -- are passed to the program, with a note; --config and --config-dir are refused there",
    from: "choice",
    why: "the server would be written to another file than intended",
  },
  "cli:add:literal": {
    says: "in texts typed for svc mcp add, add-json and the flags of edit, a $ is text, except in ${NAME}, and in $NAME as the whole value; notes say which values are references",
    from: "choice",
    why: "a password with a $ must reach its server unchanged, and a pasted configuration may refer to variables",
  },
  "cli:add:json": {
    says: "svc mcp add-json takes one server, or a whole configuration of svc or another application, as an argument or from stdin",
    from: "choice",
    why: "servers are published as JSON",
  },
  "cli:edit:flags": {
    says: "svc mcp edit takes the flags of add, a new command after --, and flags that remove a variable or a header",
    from: "choice",
    why: "a user who added a server with flags first tries the same flags",
  },
  "cli:aliases": {
    says: "a command name of another program runs the command of svc if it has only one meaning here; for others, the answer shows the right line",
    from: "choice",
    why: "a mistake should cost seconds",
  },
  "health:refusal": {
    says: "a server that is awaiting_oauth says in a field whether it needs a sign-in or a token, or refused the credentials",
    from: "choice",
    why: "programs must not read the reason out of a sentence",
  },
  "cli:names": {
    says: "a command that is given an unknown name says which one is nearest, which names exist, or which command lists them",
    from: "choice",
    why: "a mistake should cost seconds",
  },
  "cli:yes": {
    says: "every command accepts --yes, also if it never asks",
    from: "choice",
    why: "scripts give it to every command that may ask, and which ones ask changes",
  },
  "cli:retired": {
    says: "the old name of a command works for one more release, and a warning on stderr names the new one",
    from: "choice",
    why: "scripts need time to change",
  },
  "cli:writes": {
    says: "a command that changes servers, tools, presets or tokens returns when the running svc has applied the change",
    from: "choice",
    why: "the next command, or the next request of a client, must not see the old state",
  },
  "cli:writes:outcome": {
    says: "a command that adds, changes, enables or restarts a server waits up to --timeout until the server has connected or failed, and reports the outcome",
    from: "choice",
    why: "the edit is made in any case, and the server may need another edit or a sign-in",
  },
  "cli:writes:refused": {
    says: "an edit that every reload would refuse is not written; if only the running svc refuses an edit, the edit stays and the command exits with 78",
    from: "choice",
    why: "svc must not discard what the user wrote, but a script must notice",
  },
  "cli:writes:no-wait": {
    says: "with --no-wait, without a running svc, or if svc has --no-reload, a command returns when the file is written",
    from: "choice",
    why: "a command must not override --no-reload",
  },
  "cli:restart": {
    says: "svc mcp restart restarts a running backend at once",
    from: "Command-line and configuration interfaces",
  },
  "cli:mistake": {
    says: "an unknown flag or command is answered with one line that suggests the nearest known one, and exit code 64",
    from: "choice",
    why: "a mistake should cost seconds",
  },
  "cli:port": {
    says: "a port in use is answered with one line that names it, and exit code 69",
    from: "choice",
    why: "this is the most common error at the first start",
  },
  "cli:health:given-up": {
    says: "svc health --wait ends at once with 69 if svc has given up on a supervised server",
    from: "choice",
    why: "only a change or a restart by hand helps then, and a pipeline that waits for it waits in vain",
  },
  "cli:check": {
    says: "svc config check and svc doctor ask for the values of references, and name each that has none: of servers, templates, registries and notifications",
    from: "choice",
    why: "a check that passes must mean that svc can load the file",
  },
  "cli:check:strict": {
    says: "svc config check --strict exits with 78 for warnings too, except for the limits of clients",
    from: "choice",
    why: "in CI, a misspelled key is a setting that silently has no effect",
  },
  "cli:background": {
    says: "svc serve --background returns when svc serves its configuration, or with the reason why it does not; if the configuration cannot be loaded, it prints the issues, stops svc and exits with 78",
    from: "choice",
    why: "the next line of a script must find svc ready, and a failed start must not look like a successful one",
  },
  "cli:hangup": {
    says: "SIGHUP reloads the configuration, but stops an svc whose terminal was closed",
    from: "choice",
    why: "the system also sends SIGHUP when a terminal window is closed, and nobody would find the svc that kept running",
  },
  "cli:log-file": {
    says: "--log-file writes the log to a file instead of stderr, and rotates it by size",
    from: "choice",
    why: "nothing rotates the stderr of a program that runs for months",
  },
  "cli:stop": {
    says: "svc stop ends the svc of a configuration as SIGTERM does, kills it after --timeout, returns when the process has ended, and exits with 0 if none runs",
    from: "choice",
    why: "a script wants svc to be stopped, no matter what stopped it",
  },
  "cli:ps": {
    says: "svc ps lists every running svc of the user that listens for a configuration, without files that a killed one left behind",
    from: "choice",
    why: "with several configurations, people must be able to find out which are served, and where",
  },
  "cli:demo": {
    says: "while no other svc uses the configuration, svc's commands find the demo as they find any svc, but none of them changes it",
    from: "choice",
    why: "after svc serve --demo, people first try other commands",
  },
  "cli:service": {
    says: "svc service install shows the file and the commands before it asks, changes nothing if run again, and leaves nothing behind after a failure or svc service uninstall",
    from: "choice",
    why: "users must know what starts automatically, and be able to remove it easily",
  },
  "service:user": {
    says: "svc service install --system installs nothing for a user that does not exist, cannot run the program, or cannot write the configuration directory, and says what to do",
    from: "choice",
    why: "systemd would start such a service again and again, and show only a number",
  },
  "cli:service:systemd": {
    says: "a systemd unit has Type=notify, a watchdog, the PATH of the installation, and as much hardening as servers tolerate",
    from: "choice",
    why: "without the user's PATH, a unit does not find npx, and one that forbids compiling or access to the home directory breaks servers",
  },
  "cli:service:notify": {
    says: "svc tells systemd when it is ready, reloading, stopping and alive; servers do not inherit the socket for this",
    from: "choice",
    why: "a server with NOTIFY_SOCKET could tell systemd that svc is well",
  },
  "cli:upgrade": {
    says: "svc upgrade replaces the program atomically and keeps the previous one for --rollback; it installs older releases only with --version, and does not touch a program that a package manager installed",
    from: "choice",
    why: "a complete program must exist at every moment, and two owners of one file undo each other's work",
  },
  "cli:upgrade:handover": {
    says: "on Linux, svc upgrade lets the new program take over from an svc in the background or as a service on its port, and no call fails; if the new program does not start, the old svc goes on",
    from: "choice",
    why: "nobody upgrades a program that many clients share if that interrupts them",
  },
  "cli:upgrade:checks": {
    says: "a program is used only if SHA256SUMS contains its SHA-256, the compiled-in key has signed SHA256SUMS, and the signature names the version; a build without a key says that it has checked only the SHA-256",
    from: "choice",
    why: "an attacker who controls the server or the network must not control the program; a build from source has no key",
  },
  "cli:uninstall:keeps": {
    says: "svc uninstall restores the files of connected clients first; --purge moves what exists only in the configuration directory to a folder in the home directory; a file that cannot be restored keeps its backup, and the exit code is 69",
    from: "choice",
    why: "connected clients have no servers of their own left, so an uninstallation must not remove the only copy",
  },
  "cli:uninstall": {
    says: "svc uninstall shows what it removes, removes services and programs, refuses while svc runs, and keeps the configuration unless --purge is given",
    from: "choice",
    why: "a program is easy to install again, a configuration is not",
  },
  "cli:completion": {
    says: "svc completion prints a shell script that completes commands, flags, values of flags, files, and the names of servers, templates, tools, presets, tokens and backups; the script asks svc complete, which answers without the network and never with an error",
    from: "choice",
    why: "a completed name is not misspelt, and a message in the middle of a line would be worse than no completion",
  },
  "cli:completion:shells": {
    says: "the scripts work in bash, zsh and fish as a user types",
    from: "choice",
    why: "these are the shells of the systems that svc runs on",
  },
  // Screens
  "states:words": {
    says: "all commands and internal tools show people the same vocabulary of server states",
    from: "choice",
    why: "three words for one state make a reader look for a difference",
  },
  "cli:table": {
    says: "tables fit the terminal: svc cuts the widest columns, paths at their beginning, but never an address or a name to type, and continues advice on the next line; it leaves out empty columns, counts wide characters as two columns, and escapes texts of servers",
    from: "choice",
    why: "a row that wraps inside a word is unreadable; the detail view and JSON contain the whole value",
  },
  "cli:help": {
    says: "each help page fits the terminal, names every option once (those of svc serve in groups), and ends with examples that svc accepts",
    from: "choice",
    why: "nobody reads a list of forty options, and people copy the example first",
  },
  "cli:help:all": {
    says: "svc serve --help shows the fifteen options that people use most, and --help --all every option",
    from: "choice",
    why: "nobody finds the option for a first start among fifty",
  },
  "cli:json": {
    says: "under --json, a failure is {error: {code, message}} on stdout, with the exit code of the failure and nothing on stderr",
    from: "choice",
    why: "a program reads one stream, and must distinguish a failure from a result by its shape",
  },
  "cli:json:shapes": {
    says: "under --json, servers, instances, tools, tokens, presets and log lines each have one shape, documented in docs/json.md",
    from: "choice",
    why: "a script that can read one command can read the others",
  },
  "front:page": {
    says: "GET / answers a browser with a page that shows how clients connect to this address, and a program with JSON; it needs no token and shows none",
    from: "choice",
    why: "people open the printed address in a browser, where a JSON error would tell them nothing",
  },
  "rest:clients": {
    says: "REST lists the clients of the machine, imports their servers, and connects, disconnects and undoes as svc connect does: a change is shown first, and only this change is made",
    from: "choice",
    why: "the page must not do more than a person has seen",
  },
  "rest:machine-secrets": {
    says: "REST stores a missing secret outside of mcp.json, shows and logs it nowhere, and removes one with a warning that names its servers",
    from: "choice",
    why: "a person without a terminal must be able to set one",
  },
  "rest:tokens": {
    says: "REST creates a client token within the limits that were asked for and shows its text in that answer alone; only an admin may create one",
    from: "choice",
    why: "a person without a terminal must be able to let in a client, and a token that is not one of an admin must not make one",
  },
  "rest:backups": {
    says: "REST adds a server without its keys in mcp.json, lists the backups of mcp.json, and restores one after showing the change",
    from: "choice",
    why: "every change must be undone as easily as it was made",
  },
  "rest:paste": {
    says: "REST reads the servers in a pasted text: JSON of any client, a command line, an address, a package, or a client's own command",
    from: "choice",
    why: "the README of a server gives one of these",
  },
  "rest:doctor": {
    says: "REST shows what svc doctor finds",
    from: "choice",
    why: "people must see what is wrong where they work",
  },
  "rest:offers": {
    says: "REST reads prompts and resources, counts the tokens of tools as svc tokens does, and shows the memory of servers",
    from: "choice",
    why: "people want to see what an assistant would get, and what it costs",
  },
  "rest:presets": {
    says: "REST shows what a preset would include before it is saved",
    from: "choice",
    why: "rules are easy to get wrong",
  },
  "admin:first-run": {
    says: "an admin page without servers offers to import, add or find them and to connect a client; the import shows what would run, with a box for each server, and leads to the clients if none is connected",
    from: "choice",
    why: "a new user must get in without a document",
  },
  "admin:update": {
    says: "the page shows the version of a server from a registry, and updates it to the version whose command the person has seen",
    from: "choice",
    why: "a new version is a new program, which a person approves as the first one",
  },
  "admin:demo": {
    says: "svc serve --demo has the admin page, with a configuration in a temporary folder that is gone when it stops; it connects no client",
    from: "choice",
    why: "people who look around want to see what they would get, and a client must not keep an entry that leads nowhere",
  },
  "admin:clients": {
    says: "the admin page connects clients, disconnects them with all tools or with a preset, and undoes that, after it has explained the ways and shown the change of the client's file",
    from: "choice",
    why: "a person who never uses a terminal must get in",
  },
  "admin:paste": {
    says: "the admin page turns pasted JSON, a command line, an address or a package into servers, moves keys to .env, and says what is wrong with any other text",
    from: "choice",
    why: "nobody should have to translate a README into a form",
  },
  "admin:tokens": {
    says: "the admin page creates a client token by a form, shows its text once with the entry for a client, and revokes it after a question",
    from: "choice",
    why: "a client that svc does not know, or on another machine, needs one",
  },
  "admin:secrets": {
    says: "the admin page has a field for a missing secret, writes its value only where secrets live, and removes a secret after it has named the servers that use it",
    from: "choice",
    why: "a person should not have to edit .env",
  },
  "admin:remedies": {
    says: "each problem on the admin page has the buttons that mend it: restart, settings, log, approval, connection of a client, reading secrets again, undo; the page asks for no command where svc has the action",
    from: "choice",
    why: "who never uses a terminal must be able to mend what svc can mend",
  },
  "admin:failure": {
    says: "after a change, the admin page shows the state that the server has reached, in its color, with the end of its log and the way to its settings",
    from: "choice",
    why: "a green notice over a failed start misleads",
  },
  "admin:presets-ticked": {
    says: "the admin page makes presets by ticking servers and tools and by naming tools, shows their tokens meanwhile, and offers the address and the clients",
    from: "choice",
    why: "most people think of tools, not of rules",
  },
  "admin:presets-edited": {
    says: "a changed box of a preset changes the rules for tools of its server alone: those for other servers, prompts and resources stay, and so does what another tab has saved meanwhile",
    from: "choice",
    why: "a click must not show clients what a rule hides, or lose a server that is down",
  },
  "admin:offers": {
    says: "the admin page gets prompts and reads resources of a server",
    from: "choice",
    why: "they are part of what a server offers",
  },
  "admin:asks": {
    says: "a tool that asks a person can be tried on the admin page, which shows its form and sends the answer",
    from: "choice",
    why: "such tools could not be tried at all",
  },
  "admin:calls": {
    says: "the admin page shows the last calls with client (the page's own calls, too), arguments and the beginning of the answer, without secrets; they can be filtered, exported and repeated; with --activity off, the page says that svc keeps none",
    from: "choice",
    why: "the question after a surprise is what the assistant did",
  },
  "activity:parts": {
    says: "each of the last calls says how long it waited for its server or a person, and how long the server had it",
    from: "choice",
    why: "a slow call is the fault of one of three",
  },
  "activity:command": {
    says: "svc activity shows the last calls of tools since the start of svc, selected by outcome, duration and tool; without --activity content only their names, and with it arguments and answers without secrets",
    from: "choice",
    why: "the question what an agent has just done comes after the call",
  },
  "admin:undo": {
    says: "the admin page says what each change of mcp.json was, and undoes the last one after it has shown what changes back",
    from: "choice",
    why: "mistakes happen",
  },
  "admin:merge": {
    says: "settings of a server that two people change at once are merged if they are different ones; otherwise, or if the server is gone, the page says so and keeps what was typed",
    from: "choice",
    why: "nobody should lose an edit to another tab",
  },
  "admin:narrow": {
    says: "each view for clients, servers, presets, secrets and history fits a telephone, in the dark, without serious findings of axe",
    from: "choice",
    why: "people look at it wherever they are",
  },
  "rest:openapi": {
    says: "every answer under /api/v1 matches the OpenAPI document at /api/v1/openapi.json, and every error is a problem detail (RFC 9457)",
    from: "choice",
    why: "a client generated from the document must work",
  },
  "rest:login": {
    says: "without --auth, /api/v1 needs a session of svc admin: a link works once, within 60 seconds; a cookie alone opens nothing, nor does its value as a token, and no other origin may use it",
    from: "choice",
    why: "every program and web page on the machine can reach a loopback port, and browsers send a cookie to all ports of a host",
  },
  "rest:login:restart": {
    says: "without --auth, a login from the link of svc admin outlives a restart of svc; its file is private and has only hashes, and a login from a token, or with --auth, is only in memory",
    from: "choice",
    why: "svc restarts when it is upgraded, and people should not have to fetch a new link each time; a program that can read the file must not be able to log in",
  },
  "rest:auth": {
    says: "with --auth, /api/v1 needs a token that is not limited to tags; the views without a version select by tags as /mcp does",
    from: "choice",
    why: "reading the configuration of all servers is a greater right than using some of them",
  },
  "audit:rest": {
    says: "each change through REST is a line of the audit log that says who made it",
    from: "choice",
    why: "a change over the network must be as traceable as a command",
  },
  "rest:auth-login": {
    says: "with --auth, POST /api/v1/session exchanges a token for a browser login that is valid only for REST, has the rights of the token, and ends with it",
    from: "choice",
    why: "a page should not keep a token where its scripts can read it",
  },
  "admin:review": {
    says: "the admin page shows issues with their place, changed tools with their differences, calls over time, when svc began to count them, and sessions",
    from: "choice",
    why: "anything that needs a person's attention must not be hidden in a log",
  },
  "admin:hostile-server": {
    says: "no text of a server runs as a script in the admin page, or makes it load anything",
    from: "choice",
    why: "servers control descriptions, results and logs",
  },
  "admin:hostile": {
    says: "web pages of other origins, including other ports of this host and rebound host names, get nothing from REST, with any request",
    from: "choice",
    why: "a page in an open browser must not make svc run programs",
  },
  "rest:issuer-login": {
    says: "if the issuer accepts svc as a client, users of the admin page log in there with PKCE, only in the browser that began the login",
    from: "choice",
    why: "people have an account at the issuer, but no token to paste",
  },
  "rest:authorize": {
    says: "POST /api/v1/servers/NAME/authorize starts the sign-in to a remote server, as svc auth login does, and returns the address to open",
    from: "choice",
    why: "the page must not send people to a terminal",
  },
  "admin:page": {
    says: "the admin page at /admin is part of the program: it loads nothing from elsewhere, runs only its own scripts, cannot be framed, and needs less than 120 KB",
    from: "choice",
    why: "a page that manages the programs on this machine must not run code of others",
  },
  "admin:login": {
    says: "without a login, the admin page shows only how to log in",
    from: "choice",
    why: "people who open the address must learn what to do",
  },
  "admin:live": {
    says: "a change of the configuration appears on every open admin page without a reload",
    from: "choice",
    why: "the file is the source of truth, and editors, commands and other tabs change it too",
  },
  "admin:servers": {
    says: "on the admin page, people restart, enable, disable and remove servers, and see why a server fails and what to do",
    from: "choice",
    why: "a state without a remedy sends people to the documentation",
  },
  "admin:edit": {
    says: "the admin page adds, changes and removes servers with forms made from the schema; it keeps hidden secrets, and refuses to overwrite a setting that was changed in the meantime",
    from: "choice",
    why: "the page must not undo what somebody wrote in an editor",
  },
  "admin:zero-tools": {
    says: "on the admin page, a change that leaves a server without an enabled tool needs confirmation",
    from: "choice",
    why: "a server without tools looks broken to clients",
  },
  "admin:tools": {
    says: "the admin page hides and shows tools, and replaces and restores their descriptions beside the servers' own texts",
    from: "choice",
    why: "the specification requires it",
  },
  "admin:find": {
    says: "the lists of servers and tools show the entries that contain every word of the search, in any order; tools can also be filtered by server",
    from: "choice",
    why: "people remember words of a name, not their order",
  },
  "admin:try": {
    says: "the admin page calls a tool with a form made from its schema, which sends nothing while a required value is absent, and shows texts, tables, images and structured content; it never treats text of a server as HTML",
    from: "choice",
    why: "people must be able to see what an assistant would get",
  },
  "admin:logs": {
    says: "the admin page follows the logs of servers, filtered by server, level and text",
    from: "choice",
    why: "the output of a server explains most failures",
  },
  "admin:presets": {
    says: "the admin page makes presets that select servers by tags, and says what is wrong with an expression",
    from: "choice",
    why: "mistakes in an expression over tags are easy to make",
  },
  "admin:install": {
    says: "before it installs a server, the admin page shows the whole command, the variables and the rights, and it installs exactly this",
    from: "choice",
    why: "an installation runs code of others",
  },
  "admin:search": {
    says: "the admin page shows the ranking of a search over tools, with scores and the places where the words were found",
    from: "choice",
    why: "without this, nobody knows why an assistant does not find a tool",
  },
  "admin:access": {
    says: "the admin page works by keyboard, on narrow screens, in light and dark mode, with notices that cover none of its controls, and without serious findings of axe",
    from: "choice",
    why: "everybody must be able to use it",
  },
  "rest:off": {
    says: "--no-admin turns off REST, its login and the admin page",
    from: "choice",
    why: "a part that is not needed should not be reachable",
  },
  "rest:pages": {
    says: "lists under /api/v1 come in pages; changes of the list disturb neither their order nor the cursors",
    from: "choice",
    why: "if a list changes between two pages, no entry may be skipped",
  },
  "rest:secrets": {
    says: "no answer under /api/v1 shows a configured secret; if a client sends a hidden value back, the stored value stays",
    from: "choice",
    why: "an editor must be able to change a server without knowing its secrets",
  },
  "rest:if-match": {
    says: "PUT of a server needs the ETag of the version that was read, and answers 412 if the server has changed since",
    from: "choice",
    why: "two editors must not undo each other's changes",
  },
  "rest:edits": {
    says: "simultaneous edits through REST, commands and the file never lose one another",
    from: "choice",
    why: "all of them change the same file",
  },
  "rest:zero-tools": {
    says: "a change through REST that leaves a server without an enabled tool answers 409 unless confirmZeroTools is true",
    from: "Command-line and configuration interfaces",
  },
  "rest:descriptions": {
    says: "REST shows a replaced description together with the server's own",
    from: "Command-line and configuration interfaces",
  },
  "rest:install": {
    says: "POST /api/v1/install without a digest only plans and shows the whole command; only with the digest of this plan does it install",
    from: "choice",
    why: "people must have seen what will run",
  },
  "rest:events": {
    says: "GET /api/v1/events streams events of servers, configuration, catalog and finished calls; /api/v1/logs/stream streams log lines",
    from: "choice",
    why: "a page that polls is late and costs more",
  },
  "rest:views": {
    says: "GET /api/servers, /api/tools, /api/inspect and /api/instructions show the same as /mcp, and POST /api/tool-invocations calls a tool",
    from: "choice",
    why: "scripts of the system that the specification describes use them",
  },
  "cli:logs": {
    says: "svc logs selects lines by number, time, level and text, and shows only the lines of one configuration",
    from: "choice",
    why: "two configurations in the same directory may use the same server names",
  },
  "cli:first-screen": {
    says: "svc serve first shows the servers that are starting, and then what is ready, what needs attention and what to do next: on a terminal it updates in place, elsewhere it is one line of the log",
    from: "choice",
    why: "npx may take half a minute to install a server, and silence looks like a failure",
  },
  "cli:color": {
    says: "colors appear only on a terminal; NO_COLOR turns them off, FORCE_COLOR turns them on, and COLUMNS sets the width",
    from: "choice",
    why: "these are common conventions",
  },
  "release:signature": {
    says: "SHA256SUMS names every file of a release, and its minisign signature names the version in the trusted comment",
    from: "choice",
    why: "one signature covers all files, and an old release cannot be passed off as a new one",
  },
  "release:same-bytes": {
    says: "building a release of the same commit again produces the same bytes",
    from: "choice",
    why: "others can verify that a release was built from its source",
  },
  "release:installer": {
    says: "install.sh replaces no program with one that does not run, and names the packages that are missing on Alpine",
    from: "choice",
    why: "after a failed update, the previous program must still be there",
  },

  // Replicas
  "cluster:off": {
    says: "without --cluster, svc loads no code for clusters",
    from: "choice",
    why: "a feature that is turned off must cost nothing",
  },
  "cluster:option": {
    says: "--cluster takes the URL of one Redis or Valkey; a password on the command line must be a reference to a variable",
    from: "choice",
    why: "other users of the machine can read command lines",
  },
  "cluster:option:checked": {
    says: "a --cluster with an unknown scheme or parameter, or a database that is not a number, and a --cluster-address without --cluster are usage errors that say what to write, and repeat no password",
    from: "choice",
    why: "with a misspelled prefix a replica joins another cluster",
  },
  "cluster:tls": {
    says: "svc accepts a Redis certificate of a private authority that NODE_EXTRA_CA_CERTS names, and says so if the variable is missing",
    from: "choice",
    why: "a private Redis seldom has a public certificate",
  },
  "cluster:unfit": {
    says: "if the shared state is a node of a Redis Cluster or a Sentinel, svc does not start, and gives the reason",
    from: "choice",
    why: "such a Redis refuses commands for some keys, so only some sessions would fail",
  },
  "cluster:problems": {
    says: "if svc cannot use the Redis of --cluster, the log says once what is wrong and what to do: password, rights, database, TLS, host, port",
    from: "choice",
    why: "svc starts even without Redis, so a mistake shows only in the log",
  },
  "cluster:evicting": {
    says: "svc warns once if the maxmemory-policy of Redis deletes keys",
    from: "choice",
    why: "sessions would end at random, and only when Redis is full",
  },
  "cluster:state": {
    says: "the shared state offers records by field, compare and set, buckets, windows, leases with fencing tokens, and messages in order",
    from: "choice",
    why: "all agreement between replicas is built on these",
  },
  "cluster:keys": {
    says: "replicas agree on random keys, even if the shared state is cleared meanwhile",
    from: "choice",
    why: "an attacker who knows the key could reach servers as a replica does",
  },
  "cluster:apart": {
    says: "clusters with different prefixes or databases on the same Redis share neither records nor messages",
    from: "choice",
    why: "a replica forwards the requests of clients, with their credentials, to the replicas that it considers its own",
  },
  "store:contract": {
    says: "sessions, secrets, pins and rate limits behave the same in svc's own files and in Redis",
    from: "choice",
    why: "--cluster must not change what svc stores",
  },
  "cluster:pins": {
    says: "the first replica that sees a tool pins it for all: if the server lists another definition to another replica, the tool has changed",
    from: "choice",
    why: "a new replica must not trust a server that gives it another definition than the others",
  },
  "cluster:sessions": {
    says: "a session that one replica opened can be used on all replicas; when a client has the answer that its session has ended, it has ended on all",
    from: "choice",
    why: "load balancers need no sticky sessions",
  },
  "cluster:sessions:changes": {
    says: "a log level or subscription that a client sets at one replica holds for its next request, at whichever replica that arrives",
    from: "choice",
    why: "a load balancer sends the requests of a client to any replica, and a client waits only for the answer",
  },
  "session:params": {
    says: "initialize is refused if its params have more than 65,536 characters",
    from: "choice",
    why: "svc keeps them for the whole session: a client must not fill the memory of svc, or that of all replicas",
  },
  "cluster:sessions:bounded": {
    says: "a principal has at most 50,000 sessions in Redis; beyond that, the sessions whose last use was recorded the longest ago end",
    from: "choice",
    why: "a client that opens sessions in a loop must not fill the memory that all replicas share",
  },
  "cluster:calls": {
    says: "a call that consists only of the tool's name and arguments works through any replica",
    from: "choice",
    why: "programs that call a single tool need not know whether there are replicas",
  },
  "cluster:answers": {
    says: "a client's answer to a server's question reaches the call, whichever replica receives it",
    from: "choice",
    why: "the id of the question names the replica that asked",
  },
  "cluster:cancel": {
    says: "a cancellation reaches the call, whichever replica receives it",
    from: "choice",
    why: "a call must not continue if nobody wants its result",
  },
  "cluster:cancel:bounded": {
    says: "a cancellation of a request on another replica is sent once, and again to a replica that connects within ten seconds; a session may send 1,000 in ten seconds",
    from: "choice",
    why: "each costs every replica a message, and a client can send them without a request",
  },
  "cluster:resume": {
    says: "while the replica that sent a broken stream lives, the client can resume the stream on any replica without a loss",
    from: "choice",
    why: "events stay on the replica that sent them, because copying each to Redis would slow down every stream",
  },
  "cluster:stream": {
    says: "messages that belong to no request go to the replica on which the client last opened its stream",
    from: "choice",
    why: "a client has only one such stream",
  },
  "cluster:stream:bounded": {
    says: "a message that belongs to no request is passed on by at most three replicas after the first, and then held for the next stream",
    from: "choice",
    why: "replicas that have missed an announcement of the stream must not pass the message on forever",
  },
  "cluster:stream:dies": {
    says: "if the replica with a client's stream dies, the client opens the stream on another replica, and gets the messages that belong to no request there",
    from: "choice",
    why: "the session continues on another replica",
  },
  "cluster:balanced": {
    says: "clients of both SDKs and both eras can call tools and answer questions through a load balancer that distributes each request separately",
    from: "choice",
    why: "clients know nothing of replicas",
  },
  "cluster:lists": {
    says: "if a server's lists change on one replica, clients whose stream is on another replica are notified",
    from: "choice",
    why: "the load balancer decides on which replica a client's call causes the change",
  },
  "cluster:lists:away": {
    says: "if a server's lists change while the shared state is unavailable, clients of other replicas are notified once it is back",
    from: "choice",
    why: "clients would use an old list until the next change",
  },
  "cluster:subscriptions": {
    says: "an update of a resource of a stdio server on one replica reaches the subscribers on other replicas",
    from: "choice",
    why: "each replica runs its own process of a stdio server",
  },
  "cluster:subscriptions:many": {
    says: "if a subscription changes, replicas send and read only the change, however many subscriptions there are",
    from: "choice",
    why: "one client with thousands of subscriptions must not take Redis away from all others",
  },
  "cluster:subscriptions:bounded": {
    says: "clients of one replica are subscribed to at most 10,000 resources of stdio servers, with 2 MiB of URIs; svc refuses further ones",
    from: "choice",
    why: "each replica's processes subscribe to what clients of all others want; a client cannot repeat a subscription that was dropped silently",
  },
  "cluster:tasks": {
    says: "a task can be found through any replica, and does not exist for other clients",
    from: "choice",
    why: "its id names the replica whose server has it",
  },
  "cluster:tasks:list": {
    says: "tasks/list contains the tasks of all live replicas, each once and in one order, whichever replicas answer for its pages, and tasks of remote servers that outlived their replica",
    from: "choice",
    why: "clients do not know that there are replicas",
  },
  "cluster:tasks:listen": {
    says: "a modern client that listens to a task gets its updates from any replica",
    from: "choice",
    why: "the replica forwards the request to the replica whose server has the task",
  },
  "cluster:health": {
    says: "health shows the replica, the number of replicas, the digest of the configuration and the replicas that differ; readiness shows whether the shared state is unavailable, and stays 200",
    from: "choice",
    why: "if Redis fails and all replicas left the load balancer, nothing would work",
  },
  "cluster:health:away": {
    says: "while the shared state is unavailable, svc health, mcp status, doctor and cluster status say since when, why, what does not work and what to do",
    from: "choice",
    why: "an operator who sees failing sessions looks at these first, and all servers may be healthy",
  },
  "health:report:unowned": {
    says: 'a server with "replicas": "one" that no replica runs counts as not healthy, in /health and svc ps',
    from: "choice",
    why: "a server that disappears from the counts looks like a healthy svc",
  },
  "cluster:limits": {
    says: "rate limits of sessions, principals and servers count the calls of all replicas together; while the shared state is unavailable, each replica counts its own",
    from: "choice",
    why: "more replicas must not mean more calls for a client, and a limit must not cause failures",
  },
  "cluster:limits:clock": {
    says: "if the clock of Redis is set back, limits do not make clients wait for that time",
    from: "choice",
    why: "a machine that takes over from another Redis may have a different clock",
  },
  "cluster:limits:health": {
    says: "replicas count health reports and logins of an address together; each replica counts /health/live and /health/ready on its own, and no request waits for the count",
    from: "choice",
    why: "probes ask each replica; more replicas must not mean more attempts, and a Redis that hangs must not fail a probe",
  },
  "cluster:authorizations": {
    says: "replicas share the tokens of remote servers, encrypted with SVC_STATE_KEY, and one replica at a time renews them",
    from: "choice",
    why: "a refresh token may be valid only once",
  },
  "cluster:tokens": {
    says: "if a token is created, changed or revoked on one replica while svc runs, this takes effect on all within a second; a revoked token is refused for good, and the commands of each replica show all tokens",
    from: "choice",
    why: "to revoke a token, an operator must not have to find all replicas",
  },
  "cluster:tokens:offline": {
    says: "a token that is revoked while svc is stopped, or while the shared state is away before svc restarts, is refused by all replicas once they share state again; the file of each replica keeps the revocation",
    from: "choice",
    why: "a revocation that the command confirmed must hold",
  },
  "cluster:tokens:newer": {
    says: "of two changes of a token the newer one counts, even if one was made while svc was stopped or cut off",
    from: "choice",
    why: "an operator who limits a token must not find it unlimited after a restart",
  },
  "cluster:tokens:suspended": {
    says: "a replica that was suspended for more than two seconds reads revocations before it accepts a token again",
    from: "choice",
    why: "it has missed messages of the others, and a request may arrive before the next message",
  },
  "cluster:tokens:bounded": {
    says: "replicas keep a shared revocation until the token would have expired, at least for a day, and for a year if the token does not expire",
    from: "choice",
    why: "nothing may be kept forever, and an older copy of tokens.json must not make the token valid again",
  },
  "cluster:tokens:sealed": {
    says: "with SVC_STATE_KEY, tokens in the shared state are encrypted, and unencrypted ones are refused",
    from: "choice",
    why: "an attacker who can write to Redis must not be able to create a token",
  },
  "cluster:results": {
    says: "while the replica that stored a result lives, the result can be read through any replica; afterwards, svc says that it is gone",
    from: "choice",
    why: "its id names the replica that stored it; copies of large results would be the largest load on Redis",
  },
  "cluster:sse": {
    says: "a message that is posted to /messages reaches the /sse stream of its client, whichever replica receives it",
    from: "choice",
    why: "the id of the stream names the replica that has it",
  },
  "cluster:approvals": {
    says: "if a changed tool is approved on one replica, it is approved on all, including replicas that see the change later",
    from: "choice",
    why: "an operator must not have to approve it once per replica",
  },
  "cluster:drift": {
    says: "svc warns if replicas have differed for a minute in the content of mcp.json or presets.json, in flags that decide what clients see or who gets in, or in SVC_STATE_KEY, and names what differs",
    from: "choice",
    why: "clients would see servers come and go with each request, and one replica without --auth lets everybody in",
  },
  "cluster:one": {
    says: 'a server with "replicas": "one" has one process in the cluster, and all replicas offer it: calls, questions, progress, cancellations and list changes pass between replicas',
    from: "choice",
    why: "some servers own a resource that only one process may own: a file, a device, an account",
  },
  "cluster:one:tasks": {
    says: "tasks of a server that another replica runs are created, found, listed, answered and followed through any replica",
    from: "choice",
    why: "the load balancer chooses the replica, not the client",
  },
  "cluster:one:limits": {
    says: "the replica that runs a server for all does not count calls of other replicas against --session-rate-limit",
    from: "choice",
    why: "the replica that received the call has already counted it for its client",
  },
  "cluster:one:clients": {
    says: "a question of a server that another replica runs reaches only the client whose call caused it, and only that client can use its requestState; while calls of several clients run, svc holds the question, as a single svc does",
    from: "choice",
    why: "all calls from another replica look alike: the replica with the server must not take its clients for one",
  },
  "cluster:one:refused": {
    says: 'a template, or a server with "isolation": "session", that has "replicas": "one" is not loaded, and svc says what to change',
    from: "choice",
    why: "each replica renders instances for its own clients, and an operator who believes that only one process runs could lose data",
  },
  "cluster:one:passes": {
    says: "if its replica dies, another replica runs the server within five seconds plus the start of the server; two processes never run at the same time",
    from: "choice",
    why: "a lease that is not renewed expires after three and a half seconds; its owner stops the server after two",
  },
  "cluster:one:clock": {
    says: "if the clock of the owner's machine is set back, the owner does not stop the server any later",
    from: "choice",
    why: "the clock of a machine that has lost its network is often corrected soon after",
  },
  "cluster:one:waits": {
    says: 'a replica is ready when it knows the owner of each server with "replicas": "one", at the latest after --startup-wait; calls that arrive while the server has no owner, or that the owner has not accepted, wait that long for the next owner; a call that was lost with its replica fails with an error that says so',
    from: "choice",
    why: "a call that is not in flight yet need not fail",
  },
  "cluster:one:leaves": {
    says: "a replica that stops lets the running calls of a server that it runs for all finish, with everything that belongs to them, and then hands the server over, whatever else runs there; new calls meanwhile wait for the next owner, on every replica",
    from: "choice",
    why: "a rolling update must not fail a call",
  },
  "cluster:one:sleeps": {
    says: "a server that runs once sleeps on its replica, which keeps the lease and wakes it for the calls of all replicas; all of them show that it is asleep",
    from: "choice",
    why: "a process that nobody uses costs memory in a cluster, too, and two processes must not wake",
  },
  "cluster:one:fencing": {
    says: "an owner that was suspended stops the server before it uses it again, its late messages reach no client, and replicas cannot reach it with the old credential; if the shared state loses everything, servers stay with their owners",
    from: "choice",
    why: "two processes of such a server would damage its data",
  },
  "cluster:one:away": {
    says: "a replica that stops hands the server to another at once; while the shared state is unavailable, no replica runs the server",
    from: "choice",
    why: "replicas that cannot see each other must not both run it",
  },
  "cluster:drain": {
    says: "a replica that stops is not ready, still serves for --drain-delay, ends the streams of both eras and of /sse so that their clients reconnect elsewhere, and lets open calls finish",
    from: "choice",
    why: "a rolling update must not fail a call",
  },
  "cluster:drain:stream": {
    says: "messages that are sent to a session while its stream moves away from a replica that stops reach the client once, on the stream that it resumes or opens elsewhere",
    from: "choice",
    why: "a rolling update must not lose a message",
  },
  "cluster:drain:traffic": {
    says: "a replica that stops ends in time, and no call fails, even behind a load balancer that keeps sending it requests: it closes each connection after the response, passes new work on to the other replicas until its own calls have ended, and then accepts no more connections",
    from: "choice",
    why: "nginx does not probe; it takes the next server if one refuses the connection, and repeats nothing that was sent",
  },
  "cluster:status": {
    says: "svc cluster status shows the replicas, their state and load, and the owners of servers that run once",
    from: "choice",
    why: "operators must see what the load balancer chooses from",
  },
  "metrics:issues": {
    says: "/metrics counts the problems of the configuration by severity",
    from: "choice",
    why: "a server that is not loaded appears in no other metric, so no alert can find it",
  },
  "cluster:metrics": {
    says: "/metrics of a replica shows its calls in flight, its streams, the number of replicas, the servers that it owns, and whether the shared state is connected",
    from: "choice",
    why: "autoscalers and alerts read these values",
  },
  "release:kubernetes": {
    says: "each release contains manifests for Kubernetes, for one svc and for replicas, that are valid under the schemas of its API",
    from: "choice",
    why: "manifests that people paste into a cluster must work there",
  },
  "cluster:isolation": {
    says: "a session's own process of a server with isolation \"session\" is used through any replica; if its replica died, the session's next call starts another process, and svc notifies the client that the state of the old one is lost",
    from: "choice",
    why: "the state of a session must not depend on where the load balancer sends a request",
  },
  "cluster:unreached": {
    says: "a replica that cannot be reached at its address is reported in its own log, in that of the others, and by svc cluster status; requests that belong to it get 503 with Retry-After, and a question whose answer cannot be forwarded to it fails after some seconds",
    from: "choice",
    why: "a wrong address shows only when a load balancer sends an answer to another replica than the one that asked",
  },
  "cluster:silent": {
    says: "requests that were forwarded to a replica that hangs fail once, with an error or the end of their stream, as soon as that replica is known to be gone; a replica that was itself suspended, or could not hear the others, does not treat them as gone; until then, they delay no request to another replica",
    from: "choice",
    why: "a machine that hangs accepts connections, and would hold calls forever",
  },
  "cluster:chaos": {
    says: "if replicas and Redis are killed, and replicas suspended and stopped, at random, no call runs twice, no client gets the data of another, sessions continue, and calls, questions, cancellations, tasks, stored results, resumptions and list changes fail only around the time of a kill or suspension; around a clean stop, only what the replica takes with it is lost",
    from: "choice",
    why: "clients cannot repair what they cannot see",
  },
  "cluster:refusing": {
    says: "while the shared state refuses writes, everything that is already shared keeps working, other requests get 503 with Retry-After, and readiness says so; a read-only Redis replica counts as unavailable; svc shares data again by itself after the state was cleared",
    from: "choice",
    why: "a Redis that is full or was replaced still answers, but is of no use",
  },
  "cluster:away": {
    says: "while the shared state is unavailable, modern requests and known sessions continue, and requests that need it get 503 with Retry-After; svc recovers by itself, even if the state has lost all its data",
    from: "choice",
    why: "a failure of Redis must not become a failure of svc",
  },
}
