import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { makeTemporaryDirectory } from './temp.ts';

/** The built command, as a user has it. */
export const PETS = join(import.meta.dirname, '..', '..', 'dist', 'pets.js');

export type Ran = { code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string };

export type RunOptions = {
  /** On top of an environment that has nothing but PATH and a home directory. */
  env?: Record<string, string>;
  stdin?: string;
  /** A file to write to instead of a pipe. */
  stdout?: string;
  cwd?: string;
};

/** A user's machine: a home directory of its own, in which the built command runs. */
export type Machine = {
  home: string;
  configDirectory: string;
  env: Record<string, string>;
  /** Runs the command to its end. */
  pets(args: readonly string[], options?: RunOptions): Promise<Ran>;
  /** Starts the command and leaves it running. */
  start(args: readonly string[], options?: RunOptions): ChildProcess;
  /** Writes a profile's file as a login would have. */
  saveProfile(name: string, profile: { baseUrl: string; key?: string; allowHttp?: boolean }): Promise<void>;
};

/** A machine that no program has run on yet; gone after the test, with everything that was started on it. */
export async function freshMachine(): Promise<Machine> {
  const { machine, dispose } = await makeMachine();
  onTestFinished(dispose);
  return machine;
}

/** The same for who disposes of it himself. */
export async function makeMachine(): Promise<{ machine: Machine; dispose(): Promise<void> }> {
  const home = await makeTemporaryDirectory();
  const configDirectory = join(home, '.config', 'pets');
  // What a killed server leaves in the temporary directory goes with the machine.
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    PETS_CONFIG_DIR: configDirectory,
    TMPDIR: home,
  };
  const running = new Set<ChildProcess>();
  const start: Machine['start'] = (args, options = {}) => {
    const child = spawn(process.execPath, [PETS, ...args], {
      env: { ...env, ...options.env },
      cwd: options.cwd ?? home,
      stdio: ['pipe', options.stdout === undefined ? 'pipe' : openSync(options.stdout, 'w'), 'pipe'],
    });
    running.add(child);
    child.once('exit', () => running.delete(child));
    child.stdin?.on('error', () => {});
    if (options.stdin !== undefined) child.stdin?.end(options.stdin);
    return child;
  };
  const machine: Machine = {
    home,
    configDirectory,
    env,
    start,
    pets: (args, options = {}) => collect(start(args, { stdin: '', ...options })),
    async saveProfile(name, profile) {
      await mkdir(configDirectory, { recursive: true, mode: 0o700 });
      await writeFile(join(configDirectory, `${name}.json`), JSON.stringify(profile), { mode: 0o600 });
    },
  };
  return {
    machine,
    async dispose() {
      const ends = [...running].map((child) => once(child, 'exit'));
      for (const child of running) child.kill('SIGKILL');
      await Promise.all(ends);
      await rm(home, { recursive: true, force: true });
    },
  };
}

async function collect(child: ChildProcess): Promise<Ran> {
  const output = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    output.stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    output.stderr += text;
  });
  const [code, signal] = await once(child, 'close');
  return { code, signal, ...output };
}

/** A service that was started with `pets serve`. */
export type Served = {
  machine: Machine;
  child: ChildProcess;
  /** With /v1. */
  url: string;
  key: string;
  pid: number;
  /** Everything that it has written to stderr so far. */
  stderr(): string;
  /** Sends a signal and waits for the end. */
  end(signal: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
};

/** Starts `pets serve --json --port 0` with more arguments, and waits until it listens. */
export async function serve(machine: Machine, args: readonly string[] = []): Promise<Served> {
  const child = machine.start(['serve', '--json', '--port', '0', ...args]);
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const event = await new Promise<{ url: string; key: string; pid: number }>((resolve, reject) => {
    let stdout = '';
    child.stdout?.setEncoding('utf8').on('data', (text) => {
      stdout += text;
      const line = stdout.split('\n')[0] ?? '';
      if (stdout.includes('\n')) resolve(JSON.parse(line));
    });
    child.once('close', (code) => reject(new Error(`pets serve ended with ${code}: ${stderr}`)));
  });
  return {
    machine,
    child,
    ...event,
    stderr: () => stderr,
    async end(signal) {
      const closed = once(child, 'close');
      child.kill(signal);
      const [code, endedBy] = await closed;
      return { code, signal: endedBy };
    },
  };
}
