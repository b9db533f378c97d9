import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { globalAgent } from 'node:http';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { onTestFinished } from 'vitest';
import type { Listening } from '../../docs/json-output.js';
import type { Signal } from '../../src/cli/core/context.ts';
import { uptimeOf } from './clock.ts';
import { type Program, type StartOptions, startProgram } from './context.ts';
import { type BodyHandler, scriptedServer } from './scripted-server.ts';
import { makeTemporaryDirectory } from './temp.ts';

export const DIST = join(import.meta.dirname, '..', '..', 'dist');

/** The path of the executable that `npm run test:package` tests. It contains Node. Undefined if tests use the build. */
export const EXECUTABLE = process.env['PETS_EXECUTABLE'];

/** The first words of a command line that starts the built command. */
export const petsCommand: readonly [string, ...string[]] = EXECUTABLE
  ? [EXECUTABLE]
  : [process.execPath, join(DIST, 'pets.js')];

/** The words of `petsCommand` for sh, in double quotes, so that tests can put them between single quotes. */
export const petsInShell = petsCommand.map((word) => `"${word.replace(/[\\$`"]/g, '\\$&')}"`).join(' ');

export type RunResult = { code: number | null; stdout: string; stderr: string };

export type RunOptions = {
  /** Additional variables. The environment otherwise has only PATH and the directories of the machine. */
  env?: Record<string, string>;
  stdin?: string;
  /** Whether the process gets a process group of its own. */
  detached?: boolean;
};

/** With other options than those of `RunOptions`, the program runs in the process of the test. */
export type ProgramOptions = RunOptions & Pick<StartOptions, 'columns' | 'typed' | 'clock' | 'sleep'>;

/** A simulated machine of a user, which has its own home directory. Processes start in this directory. */
export type Machine = Awaited<ReturnType<typeof makeMachine>>['machine'];

/** A new machine, removed after the test together with everything that was started on it. */
export async function freshMachine(): Promise<Machine> {
  const { machine, dispose } = await makeMachine();
  onTestFinished(dispose);
  return machine;
}

/** A new machine whose profile prod points to a server with this handler. */
export async function machineWithServer(handler: BodyHandler) {
  const [machine, server] = [await freshMachine(), await scriptedServer(handler)];
  await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_k' });
  return { machine, server };
}

/** Like `freshMachine`, but the caller must call `dispose`. */
export async function makeMachine() {
  const home = await makeTemporaryDirectory();
  const configDirectory = join(home, '.config', 'pets');
  // TMPDIR is in the home directory, so that temporary files of a killed server are removed with the machine.
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    PETS_CONFIG_DIR: configDirectory,
    TMPDIR: home,
  };
  const commands = new Set<ChildProcess>();
  const programs = new Set<Program>();
  const start = (file: string, args: readonly string[], options: RunOptions = {}) => {
    const child = spawn(file, args, { ...options, env: { ...env, ...options.env }, cwd: home });
    commands.add(child);
    child.once('exit', () => commands.delete(child));
    child.stdin.on('error', () => {});
    if (options.stdin !== undefined) child.stdin.end(options.stdin);
    return child as ChildProcess;
  };

  function startCommand(args: readonly string[], options?: RunOptions): ChildProcess {
    const [file, ...first] = petsCommand;
    return start(file, [...first, ...args], options);
  }

  /** Runs the built command to its end; its working directory is the home directory. */
  const command = (args: readonly string[], options: RunOptions = {}): Promise<RunResult> =>
    collect(startCommand(args, { stdin: '', ...options }));

  /** Starts the program in this process. */
  function startOnMachine(args: readonly string[], options: ProgramOptions = {}): Program {
    const program = startProgram(args, {
      homeDirectory: home,
      temporaryDirectory: home,
      ...options,
      ...(options.clock && { uptime: uptimeOf(options.clock) }),
      env: { ...env, ...options.env },
    });
    programs.add(program);
    program.ended.finally(() => programs.delete(program)).catch(() => {});
    return program;
  }

  /**
   * Runs the program to its end in this process. Use the slower `command` only if a test needs a process. If an
   * executable is tested, this also runs a process, unless an option other than `env` and `stdin` is given.
   */
  async function pets(args: readonly string[], options: ProgramOptions = {}): Promise<RunResult> {
    if (needsProcess(options)) return command(args, options);
    const { ended, stdout, stderr } = startOnMachine(args, options);
    const code = await ended;
    // Close idle connections, as the end of a process would. Otherwise, a server waits 100 ms for them when it stops.
    for (const socket of Object.values(globalAgent.freeSockets).flat()) socket?.destroy();
    return { code, stdout: stdout(), stderr: stderr() };
  }

  /** Runs a line of sh in which `pets` is the built command, for tests of pipes, redirections, limits and umasks. */
  const shell = (line: string, options: RunOptions = {}): Promise<RunResult> =>
    collect(
      start('sh', ['-c', `pets() { ${petsInShell} "$@"; }\n${line}`], {
        stdin: '',
        ...options,
        env: { NODE: process.execPath, ...options.env },
      }),
    );

  /** Writes a file below the home directory; returns its path. */
  async function file(name: string, content: string | Uint8Array): Promise<string> {
    const path = join(home, name);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, content, { mode: 0o600 });
    return path;
  }

  /** Writes the file that `pets login` would write for a profile. */
  const saveProfile = async (name: string, profile: { baseUrl: string; key?: string }): Promise<void> =>
    void (await file(join('.config', 'pets', `${name}.json`), JSON.stringify(profile)));

  async function dispose(): Promise<void> {
    const ends = [...commands].map((child) => once(child, 'exit'));
    for (const child of commands) child.kill('SIGKILL');
    for (const program of programs) program.raise('SIGTERM');
    await Promise.all([...ends, ...[...programs].map(({ ended }) => ended.catch(() => {}))]);
    await rm(home, { recursive: true, force: true });
  }

  const run = { pets, startProgram: startOnMachine, command, startCommand, shell };
  return { machine: { home, configDirectory, env, ...run, file, saveProfile }, dispose };
}

/** Writes a program `pets` that runs the built command. Returns its directory, for PATH. */
export async function writeProgram({ file }: Machine): Promise<string> {
  const path = await file('bin/pets', `#!/bin/sh\nexec ${petsInShell} "$@"\n`);
  await chmod(path, 0o755);
  return dirname(path);
}

/** Whether the program must run as a process: an executable is tested, and no option prevents this. */
const needsProcess = (options: ProgramOptions): boolean =>
  EXECUTABLE !== undefined && Object.keys(options).every((name) => name === 'env' || name === 'stdin');

async function collect(child: ChildProcess): Promise<RunResult> {
  const output = outputOf(child);
  const [code] = await once(child, 'close');
  return { code, ...output };
}

/** Returns an object to which everything that the process writes is appended. */
export function outputOf(child: ChildProcess): { stdout: string; stderr: string } {
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text) => {
      output[name] += text;
    });
  }
  return output;
}

/** The first line of `pets serve --json`. */
type ListeningEvent = Required<Listening>;

type RunningService = ListeningEvent & {
  /** What the service has written to stdout so far. */
  stdout(): string;
  stderr(): string;
  /** Sends a signal and waits until the service has ended; returns the exit code. */
  end(signal: Signal): Promise<number>;
};

const SERVE = ['serve', '--json', '--port', '0'];

/** Starts `pets serve --json --port 0` with more arguments, usually in this process, and waits until it listens. */
export async function serve(
  machine: Machine,
  args: readonly string[] = [],
  options: ProgramOptions = {},
): Promise<RunningService> {
  if (needsProcess(options)) {
    const service = await serveCommand(machine, args, options);
    const end = async (signal: Signal) => (await service.end(signal)).code ?? 1;
    return { ...service, end };
  }
  const program = machine.startProgram([...SERVE, ...args], options);
  return {
    ...(JSON.parse(await program.firstLine()) as ListeningEvent),
    stdout: program.stdout,
    stderr: program.stderr,
    end(signal) {
      program.raise(signal);
      return program.ended;
    },
  };
}

/** Like `serve`, but always starts a process, which a test can kill. `ended` resolves when the process has ended. */
export async function serveCommand(machine: Machine, args: readonly string[] = [], options?: RunOptions) {
  const child = machine.startCommand([...SERVE, ...args], options);
  const output = outputOf(child);
  /** The exit code, or the signal that ended the process. */
  const ended = once(child, 'close').then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as Signal | null,
  }));
  await Promise.race([once(child.stdout as Readable, 'data'), ended]);
  if (!output.stdout.includes('\n')) throw new Error(`pets serve printed no line: ${output.stderr}`);
  return {
    ...(JSON.parse(output.stdout.split('\n')[0] ?? '') as ListeningEvent),
    child,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    ended,
    end(signal: NodeJS.Signals) {
      child.kill(signal);
      return ended;
    },
  };
}
