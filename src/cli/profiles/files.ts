import { chmodSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type Conf from 'conf';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import { makePrivateDirectory } from '../../system/directories.ts';
import { isMissing, realFileSystem } from '../../system/file-system.ts';
import { CliError, fileError } from '../core/errors.ts';
import { configDirectory, configHint, type HomeContext } from './paths.ts';
import { Profile, type ProfileName, Settings } from './profile.ts';

const FILE_MODE = 0o600;

// Each profile has its own file, so that concurrent logins do not lose updates.

/** Reads a profile; undefined if it has never been saved. @throws CliError if its file is damaged or cannot be read */
export const readProfile = (context: HomeContext, name: ProfileName): Profile | undefined =>
  readFile(context, name, Profile);

/** Saves a profile. @throws CliError if its file cannot be written */
export const writeProfile = (context: HomeContext, name: ProfileName, profile: Profile): Promise<void> =>
  writeFile(context, name, profile);

/** Reads the settings that do not belong to one profile. @throws CliError if their file is damaged or cannot be read */
export const readSettings = (context: HomeContext): Settings => readFile(context, 'settings', Settings) ?? {};

/** Saves the settings. @throws CliError if their file cannot be written */
export const writeSettings = (context: HomeContext, settings: Settings): Promise<void> =>
  writeFile(context, 'settings', settings);

/** Reads a file without the package conf, which would create the directory and is slow to load. */
function readFile<Schema extends z.ZodMiniType>(
  context: HomeContext,
  name: string,
  schema: Schema,
): z.output<Schema> | undefined {
  const path = join(configDirectory(context), `${name}.json`);
  let text: string;
  try {
    // Reading a named pipe would block.
    const stats = statSync(path);
    if (!stats.isFile() && !stats.isDirectory()) throw new Error('it is not a regular file');
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    const hint = 'make it a readable file, or set PETS_CONFIG_DIR to another directory';
    throw fileError('read', path, error, hint);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw damaged(path, name, 'it is not valid JSON');
  }
  const result = z.safeParse(schema, value);
  if (!result.success) throw damaged(path, name, describeIssues(result.error));
  return result.data;
}

function damaged(path: string, name: string, reason: string): CliError {
  let next = `log in again: pets login --profile ${name}`;
  if (name === 'settings') next = 'choose the default profile again: pets use <profile>';
  if (name === 'local') next = 'start the local service: pets serve';
  return new CliError(`${path} is damaged: ${reason}`, {
    code: 'damaged_file',
    hint: `fix the file, or move it away and ${next}`,
  });
}

async function writeFile(context: HomeContext, name: string, value: Record<string, unknown>): Promise<void> {
  const directory = configDirectory(context);
  const Conf = await loadConf();
  try {
    await makePrivateDirectory(realFileSystem, directory);
    const conf = new Conf({
      projectName: 'pets',
      cwd: directory,
      configName: name,
      configFileMode: FILE_MODE,
      accessPropertiesByDotNotation: false,
    });
    conf.store = value;
    chmodSync(conf.path, FILE_MODE);
  } catch (error) {
    throw fileError('write', join(directory, `${name}.json`), error, configHint(error));
  }
}

/**
 * Loads conf without the signal handlers of its dependency when-exit. They would deliver every signal twice, and end a
 * server that is stopping. Removing the handlers afterwards would also restore the default action of signals that Node
 * ignores, such as SIGXFSZ.
 */
async function loadConf(): Promise<typeof Conf> {
  const { once } = process;
  process.once = ((event: string, listener: () => void) =>
    event.startsWith('SIG') ? process : once.call(process, event, listener)) as typeof once;
  try {
    return (await import('conf')).default;
  } finally {
    process.once = once;
  }
}
