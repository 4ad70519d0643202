import { expect, test } from "bun:test"
import { launchWords } from "../../src/config/launch-words.ts"

/** The words that choose what runs. */
const chosen = (line: string) => {
  const words = line === "" ? [] : line.split(" ")
  return [...launchWords(words).keys()]
    .sort((a, b) => a - b)
    .map((at) => words[at])
    .join(" ")
}

test.each([
  ["node server.js arg", "server.js"],
  ["node --require ./a.cjs server.js arg", "--require ./a.cjs server.js"],
  ["node --import=./a.mjs -e CODE arg", "--import=./a.mjs -e CODE"],
  ["python3.12 -m module --root arg", "-m module"],
  ["python -W error -I app.py arg", "-W error -I app.py"],
  ["php -d a=b app.php arg", "-d a=b app.php"],
  ["gawk -f prog.awk arg", "-f prog.awk"],
  ["sh -c CODE sh arg", "-c CODE"],
  ["bash start.sh arg", "start.sh"],
  ["bash -o pipefail -ec CODE bash arg", "-o pipefail -ec CODE"],
  ["npx -y package arg", "-y package"],
  ["npx --package other package arg", "--package other package"],
  ["npx -y tsx@4 app.ts arg", "-y tsx@4 app.ts"],
  ["npm exec -- package arg", "exec package"],
  ["bun run --hot app.ts arg", "run --hot app.ts"],
  ["deno run -A app.ts arg", "run -A app.ts"],
  ["uvx package --repository arg", "package"],
  ["uv run --with other python -m module arg", "run --with other python -m module"],
  ["docker run -i --rm -v /data:/w -e A=b image arg", "run -i --rm /data:/w image"],
  [
    "docker run --mount=type=bind,src=/a,dst=/b --network host image arg",
    "run --mount=type=bind,src=/a,dst=/b --network host image",
  ],
  ["docker run image node app.js arg", "run image app.js"],
  ["docker -H tcp://h exec box sh -c CODE sh arg", "-H tcp://h exec box -c CODE"],
  ["git -C /a -c core.pager=x log arg", "/a -c core.pager=x log"],
  ["env -i A=b node app.js arg", "-i node app.js"],
  ["timeout -s KILL 5 node app.js arg", "-s KILL 5 node app.js"],
  ["flock /tmp/lock -c CODE", "/tmp/lock -c CODE"],
  ["xargs -n 1 npx -y package arg", "-n 1 npx -y package"],
  ["sudo -u me nohup node app.js arg", "-u me nohup node app.js"],
  ["C:\\bin\\NODE.EXE app.js arg", "app.js"],
  ["mywrapper --fast node app.js arg", "app.js"],
  ["watch -n 5 a b", "-n 5 a b"],
  ["wsl node a b", "node a b"],
  ["nix-shell -p x --run CODE", "-p x --run CODE"],
  ["expect -c CODE", "-c CODE"],
  ["runuser -u me -c CODE", "-u me -c CODE"],
  ["powershell app.ps1 a b", "app.ps1 a b"],
  ["pwsh -NoProfile -File app.ps1 arg", "-NoProfile -File app.ps1"],
  ["server --watch start node.js arg", ""],
  ["server", ""],
  ["", ""],
])("%s: %s", (line, words) => {
  expect(chosen(line)).toBe(words)
})
