import { expect, test } from "bun:test"
import { programWords } from "../../src/config/program-words.ts"

/** The words that count as program text. */
const program = (...words: string[]) => [...programWords(words)].sort((a, b) => a - b).map((at) => words[at])

test.each<readonly [words: readonly string[], program: readonly string[]]>([
  [
    ["sh", "-c", "CODE", "sh", "arg"],
    ["-c", "CODE"],
  ],
  [
    ["/bin/bash", "-lc", "CODE"],
    ["-lc", "CODE"],
  ],
  [
    ["bash", "-o", "pipefail", "-ec", "CODE", "x"],
    ["-ec", "CODE"],
  ],
  [
    ["bash", "-c", "-o", "pipefail", "-e", "CODE", "x"],
    ["-c", "-o", "pipefail", "-e", "CODE"],
  ],
  [
    ["${SHELL}", "-c", "CODE"],
    ["-c", "CODE"],
  ],
  [["fish", "--command=CODE"], ["--command=CODE"]],
  [
    ["env", "A=1", "timeout", "5", "sh", "-c", "CODE"],
    ["-c", "CODE"],
  ],
  [
    ["env", "-S", "CODE"],
    ["-S", "CODE"],
  ],
  [
    ["docker", "run", "-i", "image", "sh", "-c", "CODE"],
    ["-c", "CODE"],
  ],
  [
    ["C:\\Windows\\System32\\CMD.EXE", "/d", "/s", "/c", "CODE", "too"],
    ["/c", "CODE", "too"],
  ],
  [
    ["powershell", "-NoProfile", "-Command", "CODE", "too"],
    ["-Command", "CODE", "too"],
  ],
  [
    ["pwsh", "-enc", "CODE"],
    ["-enc", "CODE"],
  ],
  [
    ["python3.12", "-Ic", "CODE", "arg"],
    ["-Ic", "CODE"],
  ],
  [
    ["node", "--require", "./x.cjs", "-pe", "CODE"],
    ["-pe", "CODE"],
  ],
  [
    ["node", "--eval=CODE", "arg"],
    ["--eval=CODE", "arg"],
  ],
  [
    ["deno", "eval", "CODE"],
    ["eval", "CODE"],
  ],
  [
    ["perl", "-ne", "CODE", "-e", "MORE"],
    ["-ne", "CODE", "-e", "MORE"],
  ],
  [
    ["ruby", "-e", "CODE"],
    ["-e", "CODE"],
  ],
  [
    ["npx", "-y", "-c", "CODE"],
    ["-c", "CODE"],
  ],
  [
    ["npm", "exec", "-c", "CODE"],
    ["-c", "CODE"],
  ],
  [
    ["ssh", "-p", "22", "host", "CODE", "too"],
    ["CODE", "too"],
  ],
])("%j has program text", (words, text) => {
  expect(program(...words)).toEqual([...text])
})

test.each([
  [["npx", "-y", "some-server", "-c", "file", "-e", "x"]],
  [["node", "server.js", "-p", "8080", "-e", "x"]],
  [["bash", "start.sh", "-c", "x"]],
  [["python", "server.py", "-c", "x"]],
  [["bun", "run", "server.ts", "-e", "x"]],
  [["uvx", "mcp-server-git", "--repository", "."]],
  [["docker", "run", "-i", "--rm", "image", "-c", "x"]],
  [["server"]],
  [[]],
])("%j has none", (words) => {
  expect(program(...words)).toEqual([])
})
