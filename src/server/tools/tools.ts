import * as z from 'zod/mini';
import type { Backend } from '../../store/backend.ts';
import type { Seed } from '../../store/store.ts';
import type { SteadyClock } from '../../system/clock.ts';
import { ServiceError } from '../errors.ts';
import { FaultRule, FaultRules, type Faults } from '../faults.ts';
import { createPageHandler } from '../page-files.ts';
import { queryInteger, readBodyAs, readQueryAs } from '../request/input.ts';
import { type Handler, json } from '../response.ts';
import { publicPath, toolPath } from '../routes.ts';
import type { Describer } from './log-entry.ts';
import { createRecorder } from './recorder.ts';
import { createRequestsHandler, createSendAgainHandler } from './requests.ts';

/** What `/reset` does. */
export type ResetOptions = {
  /** Whether `POST /reset` may replace the contents of the store with the seed. */
  resettable?: boolean | undefined;
  /** Reads the seed for the start, which `signal` can abort, or for a reset. If undefined, resets empty the store. */
  seed?: ((signal?: AbortSignal) => Promise<Seed>) | undefined;
  /** What `GET /reset` calls the seed, such as `the sample data` or the path of a file. */
  seedName?: string | undefined;
};

type ToolsOptions = ResetOptions & {
  origin: string;
  describer: Describer;
  backend: Backend;
  clock: SteadyClock;
  faults: Faults;
  openSession: Handler;
  /** The directory of the store, or the URL of its database without the password. */
  location: string;
  onReset(): void;
};

const FaultQuery = z.object({ rule: z.optional(queryInteger(1, Number.MAX_SAFE_INTEGER)) });
const BanQuery = z.object({ key: z.string({ error: 'must be the name of a key' }) });

const NOT_RESETTABLE = 'This store cannot be reset. Start the server with --resettable or --ephemeral';

/** Creates the developer tools (docs/testing.md). */
export function createTools(options: ToolsOptions) {
  const { backend, describer, faults, resettable = false, seed } = options;
  const { store, keys, limiter } = backend;
  const recorder = createRecorder();

  async function describeKeys() {
    const all = await keys.list();
    const usages = await limiter.usage(all.map(({ sha256 }) => sha256));
    const described = all.map(({ name, plan, quota }, i) => {
      const usage = usages[i];
      return {
        name,
        plan,
        minute: usage && describeWindow(quota.perMinute, usage.minute),
        day: usage && describeWindow(quota.perDay, usage.day),
        bannedUntil: usage?.bannedUntil === undefined ? undefined : instant(usage.bannedUntil),
      };
    });
    // The clock of a browser may be wrong, so the page needs the time of this one.
    return { keys: described, time: instant(options.clock.now()) };
  }

  const liftBan: Handler = async ({ url }) => {
    const { key } = readQueryAs(BanQuery, url);
    const found = (await keys.list()).find(({ name }) => name === key);
    if (found === undefined) throw new ServiceError('not_found', `There is no key with the name ${key}`);
    await limiter.liftBan(found.sha256);
    return json(await describeKeys());
  };

  /** What a reset would do. `reason` says why it is not allowed, if so, and `seed` names what replaces the animals. */
  const describeReset = async () => ({
    reason: resettable ? undefined : NOT_RESETTABLE,
    animals: await store.size(),
    location: options.location,
    seed: seed && (options.seedName ?? 'the seed'),
  });

  const reset: Handler = async () => {
    if (!resettable) throw new ServiceError('forbidden', NOT_RESETTABLE);
    const contents = (await seed?.()) ?? { pets: [], orders: [] };
    await backend.reset(contents);
    options.onReset();
    return json({ animals: contents.pets.length, cursor: recorder.cursor() });
  };

  const page = createPageHandler();
  const showFaults = () => json(faults.current());

  const paths = [
    ...['/', '/page/{file}'].map((path) => publicPath(path, 'page', page, '/')),
    // Browsers ask for this by themselves, and it should not fill the log.
    publicPath('/favicon.ico', 'page', () => ({ status: 204, body: '' }), '/'),
    // The page signs in here with a code instead of a token.
    toolPath('/session', 'open', { POST: options.openSession }),
    toolPath('/requests', 'token', {
      GET: createRequestsHandler(recorder, describer),
      POST: createSendAgainHandler(recorder, describer, options.origin),
      DELETE() {
        recorder.clear();
        return json({ requests: [], log: recorder.logId(), cursor: recorder.cursor() });
      },
    }),
    toolPath('/keys', 'token', { GET: async () => json(await describeKeys()) }),
    toolPath('/bans', 'token', { DELETE: liftBan }),
    toolPath('/faults', 'token', {
      GET: showFaults,
      async POST(request) {
        faults.add(await readBodyAs(FaultRule, request));
        return showFaults();
      },
      async PUT(request) {
        faults.replace((await readBodyAs(FaultRules, request)).rules);
        return showFaults();
      },
      DELETE({ url }) {
        const { rule } = readQueryAs(FaultQuery, url);
        if (rule === undefined) faults.replace([]);
        else if (!faults.remove(rule)) throw new ServiceError('not_found', `There is no rule ${rule}`);
        return showFaults();
      },
    }),
    toolPath('/reset', 'token', { GET: async () => json(await describeReset()), POST: reset }),
  ];
  return { recorder, paths, describeKeys, describeReset };
}

const describeWindow = (limit: number, { used, endsAt }: { used: number; endsAt: number }) => ({
  limit,
  used,
  left: Math.max(0, limit - used),
  endsAt: instant(endsAt),
});

const instant = (milliseconds: number): string => new Date(milliseconds).toISOString();
