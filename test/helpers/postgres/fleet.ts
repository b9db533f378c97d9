import { expect, onTestFinished } from 'vitest';
import type { KeyRequest } from '../../../src/store/keys.ts';
import { freeServerPort } from '../background-program.ts';
import { freshMachine, serveCommand } from '../pets.ts';
import { databaseLocation } from './backends.ts';

/** A server whose `pets serve` process a test can kill and start again at the same URL. */
export type FleetServer = Awaited<ReturnType<typeof startFleet>>[number];

/** Creates an API key in a database, and the store if there is none. Returns the key. */
export async function createKey(databaseUrl: string, request: KeyRequest): Promise<string> {
  const location = await databaseLocation(databaseUrl);
  await location.migrate();
  return location.manageKeys(async (keys) => (await keys.create(request)).key);
}

const OUTAGE_NOTICE =
  /^(?:cannot connect to|a call failed at) postgres:\S+: |^postgres:\S+ can be used again$/;

/** Starts the built command several times on one database. The processes end after the test. */
export async function startFleet(databaseUrl: string, size = 3) {
  const machine = await freshMachine();
  return Promise.all(
    Array.from({ length: size }, async () => {
      const port = await freeServerPort();
      const args = ['--port', String(port), '--data', databaseUrl, '--no-profile', '--ban-after', '0'];
      let current: Awaited<ReturnType<typeof serveCommand>>;
      let stderrOfEarlier = '';
      let unexpectedEnds = 0;
      let isEnding = false;
      // When the test has ended, the machine kills the processes.
      onTestFinished(() => {
        isEnding = true;
      });
      const server = {
        /** The base URL, with /v1. */
        url: `http://127.0.0.1:${port}/v1`,
        async start(): Promise<void> {
          isEnding = false;
          current = await serveCommand(machine, args);
          current.child.once('exit', () => {
            if (!isEnding) unexpectedEnds++;
          });
        },
        async kill(): Promise<void> {
          isEnding = true;
          await current.end('SIGKILL');
          stderrOfEarlier += current.stderr();
        },
        pause: () => void current.child.kill('SIGSTOP'),
        resume: () => void current.child.kill('SIGCONT'),
        /** Checks that the server has never ended by itself, and has written nothing but notices of outages to stderr. */
        expectOnlyOutages(): void {
          expect(unexpectedEnds).toBe(0);
          const lines = (stderrOfEarlier + current.stderr()).split('\n').filter(Boolean);
          expect(lines.filter((line) => !OUTAGE_NOTICE.test(JSON.parse(line).notice))).toEqual([]);
        },
      };
      await server.start();
      return server;
    }),
  );
}
