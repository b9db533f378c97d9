import { setMaxListeners } from 'node:events';
import * as z from 'zod/mini';
import type { SteadyClock } from '../../contract/clock.ts';
import type { Backend } from '../../store/backend.ts';
import { invalidRequest, ServiceError } from '../errors.ts';
import type { Faults } from '../faults/faults.ts';
import { createPage } from '../page.ts';
import { readBodyAs, readQueryAs } from '../request/input.ts';
import type { Handler, ServiceResponse } from '../response.ts';
import { openRoute, toolRoutes } from '../routes.ts';
import { createRecorder } from './recorder.ts';
import { createSendAgain, showRequests } from './requests.ts';
import { createReset, type ResetOptions } from './reset.ts';

export type ToolsOptions = ResetOptions & {
  backend: Backend;
  /** The URL of this server without a path. */
  origin: string;
  clock: SteadyClock;
  /** The origins that may use the service; `*` allows every origin. */
  cors: readonly string[];
  /** The log does not show these secrets, wherever they occur. */
  secrets: readonly string[];
  faults: Faults;
  openSession: Handler;
  /** Rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
};

export const MAX_KEYS = 1_000;

const BanQuery = z.object({ key: z.string({ error: 'must be the name of a key' }) });

/** Creates the developer tools (docs/service.md 13). */
export function createTools({
  origin,
  clock,
  cors,
  secrets,
  faults,
  openSession,
  sleep,
  ...options
}: ToolsOptions) {
  const { keys, limiter } = options.backend;
  const stopping = new AbortController();
  // Each request that waits adds a listener, so many listeners are not a leak.
  setMaxListeners(0, stopping.signal);
  const recorder = createRecorder({ clock, cors });
  const { gate, withoutReset, show, reset } = createReset(options, recorder.cursor);

  async function showKeys(): Promise<ServiceResponse> {
    const all = await keys.list();
    const shown = all.slice(0, MAX_KEYS);
    const usages = await limiter.usage(shown.map(({ sha256 }) => sha256));
    const described = shown.map(({ name, plan, quota }, i) => {
      const usage = usages[i];
      return {
        name,
        plan,
        minute: usage && describeWindow(quota.perMinute, usage.minute),
        day: usage && describeWindow(quota.perDay, usage.day),
        ...(usage?.bannedUntil !== undefined && { bannedUntil: instant(usage.bannedUntil) }),
      };
    });
    return json({ keys: described, total: all.length });
  }

  const liftBan: Handler = async ({ url }) => {
    const { key } = readQueryAs(BanQuery, url);
    const found = (await keys.list()).find(({ name }) => name === key);
    if (found === undefined) throw new ServiceError('not_found', `There is no key with the name ${key}`);
    await limiter.liftBan(found.sha256);
    return showKeys();
  };

  const page = createPage();
  const showFaults = () => json(faults.current());

  const routes = [
    ...['/', '/page/{file}'].map((path) => openRoute(path, 'page', page, '/')),
    // The page signs in with a code.
    ...toolRoutes('/session', 'open', { POST: openSession }),
    ...toolRoutes('/requests', 'token', {
      GET: showRequests(recorder, { clock, secrets, sleep, stopping: stopping.signal }),
      POST: createSendAgain(recorder, { origin, keys, limiter, secrets, sleep }),
    }),
    ...toolRoutes('/keys', 'token', { GET: withoutReset(showKeys) }),
    ...toolRoutes('/bans', 'token', { DELETE: withoutReset(liftBan) }),
    ...toolRoutes('/faults', 'token', {
      GET: showFaults,
      async POST(request) {
        const { FaultRule, MAX_RULES } = await loadSchemas();
        const isAdded = faults.add(await readBodyAs(FaultRule, request), MAX_RULES);
        if (!isAdded) throw invalidRequest(`There are ${MAX_RULES} rules already, which is the limit`);
        return showFaults();
      },
      async PUT(request) {
        faults.replace(await readBodyAs((await loadSchemas()).FaultSettings, request));
        return showFaults();
      },
      DELETE() {
        faults.replace({});
        return showFaults();
      },
    }),
    ...toolRoutes('/reset', 'token', { GET: withoutReset(show), POST: reset }),
  ];
  return { recorder, resetGate: gate, routes, stop: () => stopping.abort() };
}

/** Loads the module only when faults are set, for a faster start. */
const loadSchemas = () => import('../faults/fault-settings.ts');

const json = (content: object): ServiceResponse => ({ status: 200, body: JSON.stringify(content) });

const describeWindow = (limit: number, { used, endsAt }: { used: number; endsAt: number }) => ({
  limit,
  used,
  left: Math.max(0, limit - used),
  endsAt: instant(endsAt),
});

const instant = (milliseconds: number): string => new Date(milliseconds).toISOString();
