import { API_KEY_PATTERN } from '../../contract/headers.ts';
import type { Command, Runtime } from '../command.ts';
import { withClient } from '../connect.ts';
import { CliError, usageError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { explain } from '../explain/explain.ts';
import { ask, askHidden, readAll } from '../input/ask.ts';
import { openProfileFiles } from '../profiles/files.ts';
import { maskKey, parseBaseUrl } from '../profiles/profile.ts';
import { allowsHttp, type Connection, checkProtocol, checkUrl, chooseProfile } from '../profiles/resolve.ts';
import { sameService } from '../same-service.ts';

type Options = { withKey?: boolean; allowHttp?: boolean; verify: boolean };

export const login: Command<Options> = {
  name: 'login',
  summary: 'save the key of a profile',
  examples: [
    'pets login --base-url https://api.example.com/v1',
    'pets login --profile staging --with-key < key.txt',
  ],
  options: [
    { flags: '--with-key', description: 'read the key from standard input' },
    { flags: '--allow-http', description: 'send the key over plain http to another machine' },
    { flags: '--no-verify', description: 'save without asking the service whether the key is valid' },
  ],
  async run(options, runtime) {
    const { context, globals, console } = runtime;
    const files = openProfileFiles(context);
    const { defaultProfile } = files.readSettings();
    const profile = chooseProfile({ flags: globals, env: context.env, defaultProfile });
    const stored = files.read(profile);
    const baseUrl = givenBaseUrl(runtime) ?? stored?.baseUrl ?? (await askBaseUrl(runtime));
    const allowHttp = options.allowHttp || (stored?.allowHttp && stored.baseUrl === baseUrl) || false;
    checkProtocol(baseUrl, allowHttp || allowsHttp(context.env), profile);
    const verify = (key: string) =>
      options.verify ? verifyKey(runtime, { profile, baseUrl, key }) : undefined;
    const key = options.withKey
      ? await readKey(runtime, verify)
      : await askForKey(runtime, { profile, baseUrl }, verify);
    await files.write(profile, { baseUrl, key, ...(allowHttp && { allowHttp }) });
    const use = profile === (defaultProfile ?? 'prod') ? '' : ` --profile ${profile}`;
    console.notice(`key ${maskKey(key)} for ${baseUrl} saved to profile ${profile}. Next: pets list${use}`);
    return exitCodes.ok;
  },
};

function givenBaseUrl({ context, globals }: Runtime): string | undefined {
  if (globals.baseUrl !== undefined) return checkUrl(globals.baseUrl, '--base-url');
  const fromEnv = globals.profile === undefined && context.env['PETS_BASE_URL'];
  return fromEnv ? checkUrl(fromEnv, 'PETS_BASE_URL') : undefined;
}

function askBaseUrl(runtime: Runtime): Promise<string> {
  if (!canAsk(runtime)) {
    throw usageError(
      'the profile has no base URL yet',
      `give it: ${sameService(runtime, 'login')} --base-url https://…/v1`,
    );
  }
  return ask(runtime.context, "the service's base URL, such as https://api.example.com/v1:", (text) =>
    parseBaseUrl(text) === undefined
      ? 'that is no address: it begins with https:// and mostly ends with /v1'
      : undefined,
  ).then((text) => checkUrl(text, 'the base URL'));
}

type Verify = (key: string) => Promise<void> | undefined;

/** @throws CallError where the service rejects the key, or cannot be asked */
async function verifyKey(
  runtime: Runtime,
  pair: Pick<Connection, 'profile' | 'baseUrl' | 'key'>,
): Promise<void> {
  const connection: Connection = { ...pair, keySource: 'this login' };
  await withClient(runtime, connection, (client) => client.call('listPets', { query: { limit: 1 } }));
}

async function readKey({ context }: Runtime, verify: Verify): Promise<string> {
  const text = await readAll(context);
  const fault = keyFault(text);
  if (fault !== undefined) {
    throw new CliError(fault, {
      code: 'bad_key',
      hint: 'a key is one word of visible ASCII characters: copy it again',
    });
  }
  const key = keyIn(text);
  await verify(key);
  return key;
}

const MOST_TRIES = 3;

/** Somebody who has typed the address should not have to begin anew for a key that was copied wrongly. */
async function askForKey(
  runtime: Runtime,
  { profile, baseUrl }: Pick<Connection, 'profile' | 'baseUrl'>,
  verify: Verify,
): Promise<string> {
  if (!canAsk(runtime)) {
    throw usageError(
      'there is no terminal to ask for the key',
      `pipe it in: ${sameService(runtime, 'login')} --with-key < key.txt`,
    );
  }
  const question = `the API key for ${profile} (${new URL(baseUrl).host}):`;
  for (let tries = 1; ; tries++) {
    const key = keyIn(await askHidden(runtime.context, question, keyFault));
    try {
      await verify(key);
      return key;
    } catch (error) {
      const explanation = explain(error, runtime.context.clock.now());
      if (explanation.exitCode !== exitCodes.noKey || tries === MOST_TRIES) throw error;
      runtime.console.notice(explanation.message);
    }
  }
}

const canAsk = ({ context, globals }: Runtime): boolean =>
  globals.input && context.stdin.isTTY === true && context.stderr.isTTY === true;

/** The key in what was pasted: with the word before it that headers have, or in quotes. */
const keyIn = (text: string): string =>
  text
    .trim()
    .replace(/^Bearer\s+/i, '')
    .replace(/^(["'])(.*)\1$/, '$2');

/** Checked before it is used anywhere: a line end in a key must not come back inside an error. */
function keyFault(text: string): string | undefined {
  const key = keyIn(text);
  if (/^https?:\/\//i.test(key)) return 'that is an address, not a key';
  if (API_KEY_PATTERN.test(key)) return undefined;
  if (key === '') return 'the key is empty';
  return /\s/.test(key)
    ? 'there is a space or a line end in the key'
    : 'the key has characters that no key has';
}
