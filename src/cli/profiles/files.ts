import { chmodSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import type Conf from 'conf';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import { makePrivateDirectory } from '../../system/directories.ts';
import { isMissing, realFileSystem } from '../../system/file-system.ts';
import type { Context } from '../context.ts';
import { CliError, fileError } from '../errors/errors.ts';
import { configDirectory } from './paths.ts';
import { Profile, type ProfileName, Settings } from './profile.ts';

const FILE_MODE = 0o600;

/** Profiles and settings on disk. Each profile has its own file, so that concurrent logins do not lose updates. */
export type ProfileFiles = {
  pathOf(name: ProfileName): string;
  /** Undefined if the profile has never been saved. @throws CliError if its file is damaged or cannot be read */
  read(name: ProfileName): Profile | undefined;
  write(name: ProfileName, profile: Profile): Promise<void>;
  readSettings(): Settings;
  writeSettings(settings: Settings): Promise<void>;
};

export function openProfileFiles(context: Context): ProfileFiles {
  const directory = configDirectory(context);
  const pathOf = (name: string) => join(directory, `${name}.json`);
  return {
    pathOf,
    read: (name) => readFile(pathOf(name), Profile),
    write: (name, profile) => writeFile(directory, name, profile),
    readSettings: () => readFile(pathOf('settings'), Settings) ?? {},
    writeSettings: (settings) => writeFile(directory, 'settings', settings),
  };
}

/** Does not use conf, which would create the directory and takes longer to load than a whole command. */
function readFile<Schema extends z.ZodMiniType>(path: string, schema: Schema): z.output<Schema> | undefined {
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
    throw damaged(path, 'it is not valid JSON');
  }
  const result = z.safeParse(schema, value);
  if (!result.success) throw damaged(path, describeIssues(result.error));
  return result.data;
}

function damaged(path: string, reason: string): CliError {
  return new CliError(`${path} is damaged: ${reason}`, {
    code: 'damaged_file',
    hint: `fix the file, or move it away and ${nextStep(path)}`,
  });
}

function nextStep(path: string): string {
  const name = basename(path, '.json');
  if (name === 'settings') return 'choose the default profile again: pets use <profile>';
  return name === 'local'
    ? 'start the local service: pets serve'
    : `log in again: pets login --profile ${name}`;
}

async function writeFile(directory: string, name: string, value: Record<string, unknown>): Promise<void> {
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
    const hint = 'make the directory writable, or set PETS_CONFIG_DIR to another one';
    throw fileError('write', join(directory, `${name}.json`), error, hint);
  }
}

/**
 * Loads conf without the signal handlers of its dependency when-exit, which would deliver every signal twice and end a
 * server whose stop is in progress. Removing the handlers afterwards would also reset signals that Node ignores.
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
