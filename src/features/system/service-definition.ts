/**
 * Defines svc as a service of systemd, launchd or the Task Scheduler of Windows, as data: the file that defines the service,
 * and the commands that install, remove and show it.
 */
import { join, win32 } from "node:path"
import { RequestError } from "../../lib/errors.ts"

export type ServiceFacts = {
  readonly platform: string
  /** The service manager of the user, or of the machine, which runs svc as `user`. */
  readonly scope: { readonly kind: "user"; readonly uid: number } | { readonly kind: "system"; readonly user: string }
  readonly name: string
  /** svc and its arguments. */
  readonly command: readonly [string, ...string[]]
  readonly home: string
  /** The folder of the definition if the service manager has none. */
  readonly directory: string
  /** The PATH for the commands of servers. The service manager's own PATH lacks programs that the user has installed. */
  readonly path: string
  /** The log file, used if the service manager keeps no log. */
  readonly logFile: string
}

export type ServiceDefinition = {
  readonly manager: "systemd" | "launchd" | "Task Scheduler"
  readonly file: string
  readonly text: string
  readonly encoding: "utf8" | "utf16le"
  readonly install: readonly (readonly string[])[]
  /** Starts the installed service. */
  readonly start: readonly (readonly string[])[]
  /** Stops a service that runs with an older definition. */
  readonly stop: readonly (readonly string[])[]
  /** Removes the service: `uninstall` runs before its file is removed, `forget` after that. */
  readonly uninstall: readonly (readonly string[])[]
  readonly forget: readonly (readonly string[])[]
  readonly status: readonly string[]
  /** Returns the command that shows the log; undefined if the log is in `logFile`. */
  readonly logs: ((lines: number, follow: boolean) => readonly string[]) | undefined
  /** Further advice to the user. */
  readonly hint?: string
}

/** Defines the service. Throws a RequestError (usage) for an unsupported operating system. */
export function defineService(facts: ServiceFacts): ServiceDefinition {
  switch (facts.platform) {
    case "linux":
      return systemdService(facts)
    case "darwin":
      return launchdService(facts)
    case "win32":
      return scheduledTask(facts)
    default:
      throw new RequestError(
        "usage",
        `svc has no service for ${facts.platform}; \`svc serve --background\` runs it without one`,
      )
  }
}

// ---

/** Longer than running calls and servers together may take to end. */
const STOP_SECONDS = 45

function systemdService({ scope, name, command, home, path, directory }: ServiceFacts): ServiceDefinition {
  const isUser = scope.kind === "user"
  const unit = `${name}.service`
  const manager = isUser ? ["systemctl", "--user"] : ["systemctl"]
  const text = `[Unit]
Description=svc: many MCP servers as one
${isUser ? "" : "Wants=network-online.target\nAfter=network-online.target\n"}
[Service]
Type=notify
NotifyAccess=main
ExecStart=${command.map((word) => systemdWord(word).replaceAll("$", "$$$$")).join(" ")}
ExecReload=/bin/kill -HUP $MAINPID
Environment=${[`PATH=${path}`, "SVC_STARTED_BY=service"].map(systemdWord).join(" ")}
${isUser ? "" : `User=${scope.user}\n`}Restart=on-failure
RestartSec=2
# A restart does not correct a wrong option.
RestartPreventExitStatus=64 78
WatchdogSec=60
# svc stops its servers itself; systemd kills processes that remain.
KillMode=mixed
TimeoutStopSec=${STOP_SECONDS}
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
${isUser ? "" : `${SYSTEM_HARDENING}\nReadWritePaths=${systemdWord(`-${directory}`)}\n`}
[Install]
WantedBy=${isUser ? "default.target" : "multi-user.target"}
`
  return {
    manager: "systemd",
    file: isUser ? join(home, ".config", "systemd", "user", unit) : `/etc/systemd/system/${unit}`,
    text,
    encoding: "utf8",
    install: [
      [...manager, "daemon-reload"],
      [...manager, "enable", "--now", unit],
    ],
    start: [[...manager, "enable", "--now", unit]],
    stop: [[...manager, "stop", unit]],
    uninstall: [[...manager, "disable", "--now", unit]],
    forget: [[...manager, "daemon-reload"]],
    status: [...manager, "status", "--no-pager", unit],
    logs: (lines, follow) => [
      "journalctl",
      ...(isUser ? ["--user"] : []),
      "--unit",
      unit,
      "--lines",
      String(lines),
      ...(follow ? ["--follow"] : ["--no-pager"]),
    ],
    ...(isUser
      ? { hint: "it runs while you are logged in; `loginctl enable-linger` lets it run from the start of the machine" }
      : {}),
  }
}

/** Leaves out settings that break servers which compile code, use devices, or read the home directory of their user. */
const SYSTEM_HARDENING = `ProtectSystem=full
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
CapabilityBoundingSet=`

/** Quotes a word for a unit file: systemd.service(5), "Command lines". */
const systemdWord = (word: string): string =>
  `"${word.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("%", "%%")}"`

function launchdService({ scope, name, command, home, path, logFile }: ServiceFacts): ServiceDefinition {
  const domain = scope.kind === "user" ? `gui/${scope.uid}` : "system"
  const folder = scope.kind === "user" ? join(home, "Library", "LaunchAgents") : "/Library/LaunchDaemons"
  const file = join(folder, `${name}.plist`)
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${xml(name)}</string>
  <key>ProgramArguments</key>
  <array>
${[...command, "--log-file", logFile].map((word) => `    <string>${xml(word)}</string>`).join("\n")}
  </array>
${scope.kind === "user" ? "" : `  <key>UserName</key>\n  <string>${xml(scope.user)}</string>\n`}  <key>EnvironmentVariables</key>
  <dict>
    <key>PATH</key>
    <string>${xml(path)}</string>
    <key>SVC_STARTED_BY</key>
    <string>service</string>
  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ExitTimeOut</key>
  <integer>${STOP_SECONDS}</integer>
  <key>Umask</key>
  <integer>63</integer>
  <key>StandardErrorPath</key>
  <string>${xml(`${logFile}.stderr`)}</string>
</dict>
</plist>
`
  return {
    manager: "launchd",
    file,
    text,
    encoding: "utf8",
    install: [["launchctl", "bootstrap", domain, file]],
    start: [["launchctl", "kickstart", `${domain}/${name}`]],
    stop: [["launchctl", "bootout", `${domain}/${name}`]],
    uninstall: [["launchctl", "bootout", `${domain}/${name}`]],
    forget: [],
    status: ["launchctl", "print", `${domain}/${name}`],
    logs: undefined,
  }
}

function scheduledTask({ scope, name, command, directory, logFile }: ServiceFacts): ServiceDefinition {
  if (scope.kind === "system")
    throw new RequestError("usage", "--system is for Linux and macOS: on Windows, svc runs as a task of its user")
  const file = win32.join(directory, `${name}-task.xml`)
  const [program, ...args] = [...command, "--log-file", logFile]
  const text = `<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.3" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>svc: many MCP servers as one</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Enabled>true</Enabled>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>10</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>conhost.exe</Command>
      <Arguments>${xml(["--headless", program ?? "", ...args].map(windowsWord).join(" "))}</Arguments>
    </Exec>
  </Actions>
</Task>
`
  return {
    manager: "Task Scheduler",
    file,
    text,
    encoding: "utf16le",
    install: [
      ["schtasks", "/Create", "/F", "/TN", name, "/XML", file],
      ["schtasks", "/Run", "/TN", name],
    ],
    start: [["schtasks", "/Run", "/TN", name]],
    stop: [["schtasks", "/End", "/TN", name]],
    uninstall: [
      ["schtasks", "/End", "/TN", name],
      ["schtasks", "/Delete", "/F", "/TN", name],
    ],
    forget: [],
    status: ["schtasks", "/Query", "/V", "/FO", "LIST", "/TN", name],
    logs: undefined,
  }
}

const XML_ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }
const xml = (text: string): string => text.replace(/[&<>"]/g, (char) => XML_ESCAPES[char] ?? char)

/** Quotes a word as CommandLineToArgvW reads it. */
const windowsWord = (word: string): string =>
  /^[^\s"]+$/.test(word) ? word : `"${word.replace(/(\\*)"/g, '$1$1\\"').replace(/(\\+)$/, "$1$1")}"`
