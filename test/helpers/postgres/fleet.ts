import { expect } from 'vitest';
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

/** Starts the built command three times on one database. The processes end after the test. */
export async function startFleet(databaseUrl: string) {
  const machine = await freshMachine();
  return Promise.all(
    Array.from({ length: 3 }, async () => {
      const port = await freeServerPort();
      const args = ['--port', String(port), '--data', databaseUrl, '--no-profile', '--ban-after', '0'];
      const processes = [await serveCommand(machine, args)];
      return {
        /** The base URL, with /v1. */
        url: `http://127.0.0.1:${port}/v1`,
        async killAndRestart(): Promise<void> {
          await processes.at(-1)?.end('SIGKILL');
          processes.push(await serveCommand(machine, args));
        },
        signal: (signal: 'SIGSTOP' | 'SIGCONT') => void processes.at(-1)?.child.kill(signal),
        /** Checks that the server has written nothing but notices of outages to stderr. */
        expectOnlyOutages(): void {
          const lines = processes.flatMap((each) => each.stderr().split('\n')).filter(Boolean);
          expect(lines.filter((line) => !OUTAGE_NOTICE.test(JSON.parse(line).notice))).toEqual([]);
        },
      };
    }),
  );
}
