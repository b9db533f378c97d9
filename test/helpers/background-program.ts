import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, closeSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { environment, type Identity, unprivilegedIdentity } from './postgres/programs.ts';
import { makeTemporaryDirectory } from './temp.ts';

/**
 * A shell script that waits until its stdin closes: when `remove` is called, or the process of the test ends. Then it
 * ends the program whose process id is in the file `pid`, and removes the directory. A program stopped with SIGSTOP
 * must be continued before it can end. PostgreSQL kills its stopped children after 5 s.
 */
const GUARD = `
cat > /dev/null
if pid=$(cat "$1/pid" 2> /dev/null); then
  kill -CONT "$pid"
  kill -QUIT "$pid"
  i=0
  while [ "$i" -lt 100 ] && kill -0 "$pid" 2> /dev/null; do sleep 0.1; i=$((i + 1)); done
fi
rm -rf "$1"
`;

/**
 * Creates a temporary directory for a program that keeps running after the function that starts it has returned. When
 * `remove` is called, or this process ends in any way, another process ends the program and removes the directory.
 */
export async function guardedDirectory() {
  const path = await makeTemporaryDirectory();
  const { uid, gid } = unprivilegedIdentity();
  if (uid !== undefined && gid !== undefined) chownSync(path, uid, gid);
  // A detached process does not get the SIGINT that Ctrl-C sends to the process of the test.
  const guard = spawn('sh', ['-c', GUARD, 'sh', path], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  return {
    path,
    async remove() {
      const ended = once(guard, 'exit');
      guard.stdin.end();
      await ended;
    },
  };
}

/** Starts a program, with its output in a new file `log` of the directory. */
export function startProgram(
  directory: string,
  program: string,
  args: readonly string[],
  identity: Identity = unprivilegedIdentity(),
): ChildProcess {
  const path = join(directory, 'log');
  rmSync(path, { force: true });
  const log = openSync(path, 'a');
  try {
    const child = spawn(program, args, {
      cwd: directory,
      env: environment(),
      stdio: ['ignore', log, log],
      detached: true,
      ...identity,
    });
    const pidFile = join(directory, 'pid');
    writeFileSync(pidFile, `${child.pid}`);
    child.once('exit', () => rmSync(pidFile, { force: true }));
    return child;
  } finally {
    closeSync(log);
  }
}

export const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null;

/** Waits until the program accepts connections. @throws with its log if it ends */
export async function waitUntilReady(
  child: ChildProcess,
  directory: string,
  isReady: () => Promise<boolean>,
) {
  while (!(await isReady())) {
    if (hasEnded(child)) throw new Error(`a program ended: ${readFileSync(join(directory, 'log'), 'utf8')}`);
    await sleep(10);
  }
}

const [FIRST_PORT, LAST_PORT] = [15_000, 32_000];

/**
 * A free port on 127.0.0.1, below the ports that the operating system gives to outgoing connections (from 32,768).
 * Otherwise, while a test restarts a server, an outgoing connection could take the port of the server.
 */
export async function freeServerPort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT));
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    await new Promise((resolve) => server.close(resolve));
    if (isFree) return port;
  }
}

/**
 * Starts a program that listens on a free port of 127.0.0.1, and waits until it accepts connections. It ends after the
 * test. Returns the port.
 *
 * @param configure the content of the configuration file. The program may keep other files in the directory
 * @param argsOf the arguments of the program
 */
export async function startListening(
  program: string,
  configure: (port: number, directory: string) => string,
  argsOf: (file: string, directory: string) => string[],
  identity?: Identity,
): Promise<number> {
  const { path: directory, remove } = await guardedDirectory();
  const port = await freeServerPort();
  const file = join(directory, 'configuration');
  writeFileSync(file, configure(port, directory));
  const child = startProgram(directory, program, argsOf(file, directory), identity);
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    if (child.kill('SIGKILL')) await ended;
    await remove();
  });
  await waitUntilReady(child, directory, () => accepts(port));
  return port;
}

function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
