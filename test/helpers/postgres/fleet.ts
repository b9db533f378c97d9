import { expect, onTestFinished } from 'vitest';
import type { KeyRequest } from '../../../src/store/keys.ts';
import { freshMachine, serveCommand } from '../pets.ts';
import { databaseLocation } from './backends.ts';
import { freeServerPort } from './guarded-directory.ts';

/** A server whose `pets serve` process a test can kill and start again at the same URL. */
export type FleetServer = {
  /** The base URL, with /v1. */
  url: string;
  start(): Promise<void>;
  kill(): Promise<void>;
  /** Stops the process with SIGSTOP. */
  pause(): void;
  resume(): void;
  /** Sends SIGTERM, and returns the exit code. */
  stop(): Promise<number | null>;
  /** Everything that all processes of this server have written to stderr. */
  stderr(): string;
  /** How often a process has ended although the test did not end it. */
  unexpectedEnds(): number;
};

/** Creates an API key in a database, and the store if there is none. Returns the key. */
export async function createKey(databaseUrl: string, request: KeyRequest): Promise<string> {
  const location = await databaseLocation(databaseUrl);
  await location.migrate();
  return location.manageKeys(async (keys) => (await keys.create(request)).key);
}

/** Starts the built command several times on one database. The processes end after the test. */
export async function startFleet(databaseUrl: string, size = 3): Promise<FleetServer[]> {
  const machine = await freshMachine();
  const start = async (): Promise<FleetServer> => {
    const port = await freeServerPort();
    const args = ['--port', String(port), '--data', databaseUrl, '--no-profile', '--ban-after', '0'];
    let current: Awaited<ReturnType<typeof serveCommand>>;
    let stderrOfEarlier = '';
    let unexpected = 0;
    let isEnding = false;
    const end = async (signal: NodeJS.Signals) => {
      isEnding = true;
      const { code } = await current.end(signal);
      stderrOfEarlier += current.stderr();
      return code;
    };
    const server: FleetServer = {
      url: `http://127.0.0.1:${port}/v1`,
      async start() {
        current = await serveCommand(machine, args);
        isEnding = false;
        current.child.once('exit', () => {
          if (!isEnding) unexpected++;
        });
      },
      kill: async () => void (await end('SIGKILL')),
      pause: () => void current.child.kill('SIGSTOP'),
      resume: () => void current.child.kill('SIGCONT'),
      stop: () => end('SIGTERM'),
      stderr: () => stderrOfEarlier + (isEnding ? '' : current.stderr()),
      unexpectedEnds: () => unexpected,
    };
    await server.start();
    // When the test has ended, the machine kills the processes.
    onTestFinished(() => {
      isEnding = true;
    });
    return server;
  };
  return Promise.all(Array.from({ length: size }, start));
}

const OUTAGE_NOTICE =
  /^(?:cannot connect to|a call failed at) postgres:\S+: |^postgres:\S+ can be used again$/;

/** Checks that the server has never ended by itself, and has written nothing but notices of outages to stderr. */
export function expectOnlyOutages(server: FleetServer): void {
  expect(server.unexpectedEnds()).toBe(0);
  const lines = server.stderr().split('\n').filter(Boolean);
  expect(lines.filter((line) => !OUTAGE_NOTICE.test(JSON.parse(line).notice))).toEqual([]);
}
