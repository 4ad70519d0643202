/** `svc doctor`: finds problems of svc on this machine, and shows how to fix them. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { projectCheck } from "../commands/project-check.ts"
import { remoteSignIn } from "../commands/remote-sign-in.ts"
import { withReferences } from "../commands/resolved-context.ts"
import { writtenName } from "../config/edit.ts"
import { clientsCheck } from "../features/connect/clients-check.ts"
import { checksWith, diagnose } from "../features/doctor/doctor.ts"
import { readInstallation } from "../features/doctor/installation.ts"
import { systemClock } from "../lib/clock.ts"
import { usageError } from "../lib/command-line.ts"
import { messageOf } from "../lib/errors.ts"
import { print, say, stdoutLook } from "../lib/output.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { wrap } from "../lib/table.ts"
import { paint } from "../lib/terminal.ts"
import { counted } from "../lib/text.ts"
import type { Finding } from "../serve/doctor-check.ts"
import { configuredServers } from "../serve/local-configuration.ts"

export const doctor: CommandDef = {
  meta: {
    name: "doctor",
    description: "Find problems and show how to fix them; exit with 1 for warnings, 2 for errors",
  },
  args: {
    name: {
      type: "positional",
      required: false,
      description: "Check only this server and what it offers (default: everything)",
      valueHint: "server",
    },
    ...CONTEXT_ARGS,
    fix: { type: "boolean", description: "Make the safe repairs: permissions and files of ended processes" },
    yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
  },
  async run({ args }) {
    const asJson = args.json === true
    // A missing file is a finding, not an error.
    const own = openContext(args, "allowed")
    const wanted = typeof args.name === "string" ? writtenName(args.name, configuredServers(own).keys()) : undefined
    const checks = checksWith({ checks: [clientsCheck, projectCheck], signIn: remoteSignIn })
    const onslow = (subject: string) => (asJson ? undefined : say(`still checking ${subject} …`))
    const found = await withReferences(own, false, async (context) =>
      diagnose(await readInstallation(context, systemClock), checks, onslow),
    )
    const findings = found
      .filter(({ subject }) => wanted === undefined || subject === wanted)
      .toSorted((one, other) => rank(one) - rank(other))
    const repairable = findings.filter(({ repair }) => repair !== undefined)
    const fixed = args.fix === true ? await repairAll(repairable, args.yes === true) : new Set<Finding>()
    const remaining = findings.filter((finding) => !fixed.has(finding))
    print(
      asJson,
      { checks: checks.map(({ id }) => id), findings: findings.map((one) => shape(one, fixed.has(one))) },
      () => {
        const texts = remaining.map(describe)
        const errors = remaining.filter(({ severity }) => severity === "error").length
        const counts = [
          ...(errors > 0 ? [counted(errors, "error")] : []),
          ...(remaining.length > errors ? [counted(remaining.length - errors, "warning")] : []),
        ]
        const offer =
          args.fix === true || repairable.length === 0
            ? ""
            : `; \`svc doctor --fix\` fixes ${repairable.length} of them`
        const none =
          wanted === undefined ? `no problems found (${checks.length} checks)` : `${wanted}: no problems found`
        const verdict = remaining.length === 0 ? none : `${counts.join(", ")}${offer}`
        return [...texts, verdict].join("\n\n")
      },
    )
    if (remaining.some(({ severity }) => severity === "error")) return 2
    return remaining.length > 0 ? 1 : 0
  },
}

// ---

/** Errors come first. */
const rank = ({ severity }: Finding): number => (severity === "error" ? 0 : 1)

const shape = ({ repair, ...finding }: Finding, fixed: boolean) => ({
  ...finding,
  fixable: repair !== undefined,
  ...(fixed ? { fixed } : {}),
})

function describe({ severity, what, why, fix }: Finding): string {
  const word = paint(severity, severity === "error" ? "bad" : "notice", stdoutLook())
  const look = stdoutLook()
  const lines = [`${word}: ${what}`, `  why: ${why}`, `  fix: ${fix}`]
  return lines.map((line) => wrap(line, look)).join("\n")
}

/** Makes the repairs to which the person agrees, and reports each. Returns the fixed findings. */
async function repairAll(findings: readonly Finding[], yes: boolean): Promise<ReadonlySet<Finding>> {
  const fixed = new Set<Finding>()
  if (findings.length === 0) return fixed
  if (!yes && !isInteractive()) throw usageError("no terminal to ask for confirmation of each repair; add --yes")
  for (const finding of findings) {
    if (!yes && !(await promptYesNo(`${finding.what}\nrepair it?`))) continue
    try {
      finding.repair?.()
      fixed.add(finding)
      say(`fixed: ${finding.what}`)
    } catch (error) {
      say(`not fixed: ${finding.what}: ${messageOf(error)}`)
    }
  }
  return fixed
}
