import { API_KEY_PATTERN } from '../../contract/headers.ts';
import type { Command, Runtime } from '../command.ts';
import { withClient } from '../connect.ts';
import { CliError, usageError } from '../errors/cli-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { ask, askHidden, readAll } from '../input/ask.ts';
import { openProfileFiles } from '../profiles/files.ts';
import { maskKey, type ProfileName, parseBaseUrl } from '../profiles/profile.ts';
import { allowsHttp, type Connection, checkProtocol, checkUrl, chooseProfile } from '../profiles/resolve.ts';

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
    const key = checkKey(options.withKey ? await readAll(context) : await askKey(runtime, profile, baseUrl));
    if (options.verify) {
      const connection: Connection = { profile, baseUrl, key, keySource: 'this login' };
      await withClient(runtime, connection, (client) => client.call('listPets', { query: { limit: 1 } }));
    }
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
    throw usageError('the profile has no base URL yet', 'give it: pets login --base-url https://…/v1');
  }
  return ask(runtime.context, "the service's base URL, with /v1:", (text) =>
    parseBaseUrl(text) === undefined ? 'an address such as https://api.example.com/v1' : undefined,
  ).then((text) => checkUrl(text, 'the base URL'));
}

function askKey(runtime: Runtime, profile: ProfileName, baseUrl: string): Promise<string> {
  if (!canAsk(runtime)) {
    throw usageError(
      'there is no terminal to ask for the key',
      'pipe it in: pets login --with-key < key.txt',
    );
  }
  return askHidden(runtime.context, `the API key for ${profile} (${new URL(baseUrl).host}):`, keyFault);
}

const canAsk = ({ context, globals }: Runtime): boolean =>
  globals.input && context.stdin.isTTY === true && context.stderr.isTTY === true;

/** Checked before it is used anywhere: a line end in a key must not come back inside an error. */
function checkKey(text: string): string {
  const fault = keyFault(text);
  if (fault === undefined) return text.trim();
  throw new CliError(fault, {
    code: 'bad_key',
    hint: 'a key is one word of visible ASCII characters: copy it again',
  });
}

function keyFault(text: string): string | undefined {
  const key = text.trim();
  if (API_KEY_PATTERN.test(key)) return undefined;
  return key === '' ? 'the key is empty' : 'the key has characters that no key has';
}
