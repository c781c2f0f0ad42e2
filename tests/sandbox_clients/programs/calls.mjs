// Calls what the JavaScript SDK offers, and prints the results as JSON: the same as calls.py.
import { Sandbox } from "e2b"

const METADATA = { owner: "a b&c=d/é+%" }
const CONTENT = new Uint8Array(2 ** 21).map((_byte, index) => index)
const results = {}

// The names of the classes of the error that the call throws.
async function catchError(call) {
  try {
    await call()
  } catch (error) {
    const names = []
    for (let cls = error.constructor; cls.name; cls = Object.getPrototypeOf(cls)) names.push(cls.name)
    return names
  }
  return []
}

async function useLifecycle(sandbox) {
  const info = await sandbox.getInfo()
  results.info = [info.metadata, info.state, info.name]
  results.listed = []
  for (const query of [undefined, { metadata: METADATA }, { metadata: { owner: "other" } }]) {
    const rows = await Sandbox.list({ query }).nextItems()
    results.listed.push(rows.some((row) => row.sandboxId === sandbox.sandboxId))
  }
  await sandbox.setTimeout(900_000)
  results.extended = (await sandbox.getInfo()).endAt - info.endAt > 300_000
}

async function useCommands(sandbox) {
  results.running = await sandbox.isRunning()
  const { stdout, stderr, exitCode } = await sandbox.commands.run("echo hi $MODE $OWN; echo problem >&2", {
    envs: { OWN: "1" },
  })
  results.run = [stdout, stderr, exitCode]
  try {
    await sandbox.commands.run("exit 3")
  } catch (error) {
    results.exit_code = error.exitCode
  }
  const errors = await catchError(() => sandbox.commands.run("sleep 30", { timeoutMs: 1000 }))
  results.timed_out = errors.includes("TimeoutError")
  const command = await sandbox.commands.run("read line; echo got $line", { background: true, stdin: true })
  await sandbox.commands.sendStdin(command.pid, "x\n")
  results.input = (await command.wait()).stdout
  let output = ""
  const onData = (data) => (output += new TextDecoder().decode(data))
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData })
  await sandbox.pty.resize(terminal.pid, { cols: 132, rows: 40 })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("stty size; exit\n"))
  await terminal.wait()
  results.terminal = output.includes("40 132\r\n")
}

async function useFiles(sandbox) {
  await sandbox.files.write("a b.txt", "text ü")
  await sandbox.files.write("folder/bytes", CONTENT.buffer)
  results.text = await sandbox.files.read("a b.txt")
  results.bytes = Buffer.from(await sandbox.files.read("folder/bytes", { format: "bytes" })).equals(CONTENT)
  results.names = (await sandbox.files.list("folder")).map((entry) => entry.name).sort()
  results.missing = (await catchError(() => sandbox.files.read("missing"))).includes("NotFoundError")
  const names = new Set()
  const watch = await sandbox.files.watchDir("folder", (event) => names.add(event.name))
  await sandbox.files.write("folder/new", "1")
  for (const deadline = Date.now() + 10_000; !names.has("new") && Date.now() < deadline; ) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await watch.stop()
  results.watched = [...names].sort()
  if (process.argv[2] === "domain") {
    results.signed = await (await fetch(await sandbox.downloadUrl("a b.txt"))).text()
  }
}

async function usePause(sandbox) {
  await sandbox.pause()
  results.paused = [await sandbox.isRunning(), (await sandbox.getInfo()).state]
  const errors = await catchError(() => sandbox.commands.run("true"))
  results.unreachable = errors.includes("SandboxNotFoundError") || errors.includes("TimeoutError")
  const connected = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 600_000 })
  results.reached_after_connect = !(await catchError(() => connected.files.read("a b.txt"))).length
  results.kept = (await sandbox.commands.run("cat 'a b.txt'; echo $MODE")).stdout
  results.killed = [await connected.kill(), await connected.kill(), await sandbox.isRunning()]
  results.gone = (await catchError(() => connected.getInfo())).includes("NotFoundError")
}

const sandbox = await Sandbox.create({ timeoutMs: 300_000, metadata: METADATA, envs: { MODE: "test" } })
await useLifecycle(sandbox)
await useCommands(sandbox)
await useFiles(sandbox)
await usePause(sandbox)
console.log(JSON.stringify(results))
