/** The tree of commands, for tests that hold for every command. */
import type { ArgDef, CommandDef } from "citty"
import { root } from "../src/cli/root.ts"
import { resolved } from "../src/lib/command-line.ts"

/** A command or a group of commands; the root has an empty path. */
export type TreeCommand = { readonly path: readonly string[]; readonly command: CommandDef }

/** A positional argument or an option of a command. */
export type TreeArgument = { readonly name: string; readonly definition: ArgDef }

/** Returns every command and group of svc. */
export const everyCommand = (): Promise<readonly TreeCommand[]> => commandsUnder(root, [])

/** Returns the commands that can be run, without groups. */
export async function runnableCommands(): Promise<readonly TreeCommand[]> {
  const all = await Promise.all(
    (await everyCommand()).map(async (one) => ((await resolved(one.command.subCommands)) === undefined ? [one] : [])),
  )
  return all.flat()
}

/** Returns the arguments of a command in their order. */
export const argumentsOf = async ({ command }: TreeCommand): Promise<readonly TreeArgument[]> =>
  Object.entries((await resolved(command.args)) ?? {}).map(([name, definition]) => ({ name, definition }))

// ---

async function commandsUnder(command: CommandDef, path: readonly string[]): Promise<readonly TreeCommand[]> {
  const subs = Object.entries((await resolved(command.subCommands)) ?? {})
  const under = await Promise.all(
    subs.map(async ([name, sub]) => commandsUnder((await resolved(sub)) as CommandDef, [...path, name])),
  )
  return [{ path, command }, ...under.flat()]
}
