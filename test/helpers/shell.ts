import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { type Machine, PETS, type Ran, type RunOptions } from './pets.ts';

/** Runs a line of sh on a machine, where `pets` is the built command: for pipes, redirections and umasks. */
export async function shell(machine: Machine, line: string, { env, stdin }: RunOptions = {}): Promise<Ran> {
  const child = spawn('sh', ['-c', `pets() { "$NODE" "$PETS" "$@"; }\n${line}`], {
    cwd: machine.home,
    env: { ...machine.env, ...env, NODE: process.execPath, PETS },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => {});
  child.stdin.end(stdin ?? '');
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code, signal, stdout, stderr };
}
