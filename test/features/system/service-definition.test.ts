/** The definitions of services: systemd accepts its units, and each manager gets the command word for word. */
import { expect, test } from "bun:test"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { defineService, type ServiceFacts } from "../../../src/features/system/service-definition.ts"

const FACTS: ServiceFacts = {
  platform: "linux",
  scope: { kind: "user", uid: 1000 },
  name: "svc",
  command: ["/bin/sh", "serve", '--filter=web and "a" \\ 50% $HOME'],
  home: "/home/ann",
  directory: "/home/ann/.config/svc",
  path: "/usr/bin:/home/ann/$x/100%/bin",
  logFile: "/home/ann/.config/svc/svc.log",
}
const SYSTEM: ServiceFacts["scope"] = { kind: "system", user: "ann" }

test.each([
  ["user", FACTS.scope],
  ["system", SYSTEM],
] as const)("systemd accepts the %s unit without a warning [cli:service:systemd]", async (kind, scope) => {
  const folder = mkdtempSync(join(tmpdir(), "svc-unit-"))
  const { text } = defineService({ ...FACTS, scope })
  writeFileSync(join(folder, "svc.service"), text)
  const verify = ["systemd-analyze", ...(kind === "user" ? ["--user"] : []), "verify", join(folder, "svc.service")]
  // Without systemd, this test relies on its manual: the words are pinned below.
  if (Bun.which("systemd-analyze") !== null) {
    const child = Bun.spawn(verify, {
      env: { ...process.env, XDG_RUNTIME_DIR: folder },
      stdout: "pipe",
      stderr: "pipe",
    })
    expect([await new Response(child.stderr).text(), await child.exited]).toEqual(["", 0])
  }
  expect(text.split("\n")).toContain('ExecStart="/bin/sh" "serve" "--filter=web and \\"a\\" \\\\ 50%% $$HOME"')
  expect(text.split("\n")).toContain('Environment="PATH=/usr/bin:/home/ann/$x/100%%/bin" "SVC_STARTED_BY=service"')
  for (const line of ["Type=notify", "WatchdogSec=60", "KillMode=mixed", "NoNewPrivileges=yes"])
    expect(text).toContain(line)
})

test("a service of the machine runs as the user and is hardened further [cli:service:systemd]", () => {
  const { file, text, install } = defineService({ ...FACTS, scope: SYSTEM, directory: "/etc/svc" })
  expect([file, install.at(-1)]).toEqual([
    "/etc/systemd/system/svc.service",
    ["systemctl", "enable", "--now", "svc.service"],
  ])
  for (const line of ["User=ann", "ProtectSystem=full", 'ReadWritePaths="-/etc/svc"', "CapabilityBoundingSet=\n"])
    expect(text).toContain(line)
})

test("launchd and the Task Scheduler get the command word for word, in well-formed XML [cli:service]", async () => {
  const command: ServiceFacts["command"] = ["/opt/svc", "serve", '--filter=a & "b" <c>']
  const mac = defineService({ ...FACTS, platform: "darwin", command })
  expect(mac.file).toBe("/home/ann/Library/LaunchAgents/svc.plist")
  expect(mac.install).toEqual([["launchctl", "bootstrap", "gui/1000", mac.file]])
  expect(await texts(mac.text, "string")).toContain('--filter=a & "b" <c>')
  // Another parser of property lists, if this machine has one.
  if (Bun.which("plistutil") !== null) {
    const convert = (input: Uint8Array, format: string) => {
      const { success, stdout } = Bun.spawnSync(["plistutil", "-f", format, "-i", "-"], { stdin: input })
      expect(success).toBe(true)
      return stdout
    }
    const back = convert(convert(Buffer.from(mac.text), "bin"), "xml").toString()
    expect(await texts(back, "string")).toEqual(await texts(mac.text, "string"))
    expect(await texts(back, "key")).toEqual(await texts(mac.text, "key"))
  }
  expect(defineService({ ...FACTS, platform: "darwin", scope: SYSTEM }).text).toContain(
    "<key>UserName</key>\n  <string>ann</string>",
  )

  const windows = defineService({
    ...FACTS,
    platform: "win32",
    command: ["C:\\Program Files\\svc.exe", "serve", '--filter=a "b"', "--config-dir=C:\\my dir\\"],
    directory: "C:\\svc",
    logFile: "C:\\svc\\svc.log",
  })
  expect(windows.file).toBe("C:\\svc\\svc-task.xml")
  expect(await texts(windows.text, "Arguments")).toEqual([
    String.raw`--headless "C:\Program Files\svc.exe" serve "--filter=a \"b\"" "--config-dir=C:\my dir\\" --log-file C:\svc\svc.log`,
  ])
  expect(() => defineService({ ...FACTS, platform: "win32", scope: SYSTEM })).toThrow("--system is for Linux and macOS")
  expect(() => defineService({ ...FACTS, platform: "freebsd" })).toThrow("svc serve --background")
})

/** Returns the texts of all elements with a name. */
async function texts(document: string, name: string): Promise<readonly string[]> {
  const found: string[] = []
  const rewriter = new HTMLRewriter().on(name, {
    text({ text, lastInTextNode }) {
      found.push(`${text}${lastInTextNode ? "\0" : ""}`)
    },
  })
  await rewriter.transform(new Response(document.replace(/^<\?xml.*\n(?:<!DOCTYPE.*\n)?/, ""))).text()
  const decoded = found
    .join("")
    .split("\0")
    .filter((text) => text !== "")
  return decoded.map((text) =>
    text.replace(
      /&(amp|lt|gt|quot);/g,
      (_whole, entity: string) => ({ amp: "&", lt: "<", gt: ">", quot: '"' })[entity] ?? "",
    ),
  )
}
