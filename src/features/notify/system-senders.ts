/** The network and the programs of this machine, for notifications. */
import { createShortCommands } from "../../backend/short-command.ts"
import { systemClock } from "../../lib/clock.ts"
import type { Senders } from "./send.ts"

/** Returns the senders of this machine. Commands run in `folder`, the folder of the configuration, without SVC_* of svc itself. */
export function systemSenders(
  folder: string,
  parent: Readonly<Record<string, string | undefined>>,
  commands: () => boolean,
): Senders {
  const run = createShortCommands({ folder, parent, clock: systemClock })
  return {
    send: (url, init) => fetch(url, { ...init, redirect: "manual" }),
    now: () => Date.now(),
    commands,
    run: (words, input, variables, signal) => run(words, signal, { input, variables }),
  }
}
