/**
 * Compiles src/wire/structure.wat into src/wire/structure.ts. The test of structure.ts notices when it has not run.
 *
 *     bun scripts/structure.ts
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import wabt from "wabt"

const folder = join(import.meta.dir, "..", "src", "wire")
const PROGRAM = /(?<=^const PROGRAM =\n {2}").*(?="$)/m

/** Returns the program in structure.wat, compiled, in base64. */
export async function compileStructure(): Promise<string> {
  const { parseWat } = await wabt()
  const module = parseWat("structure.wat", readFileSync(join(folder, "structure.wat"), "utf8"), { simd: true })
  module.resolveNames()
  module.validate()
  return Buffer.from(module.toBinary({}).buffer).toString("base64")
}

if (import.meta.main) {
  const file = join(folder, "structure.ts")
  const program = await compileStructure()
  writeFileSync(
    file,
    readFileSync(file, "utf8").replace(PROGRAM, () => program),
  )
}
