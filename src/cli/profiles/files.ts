import { chmodSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import { ensureDirectory, realFiles } from '../../store/files.ts';
import type { Context } from '../context.ts';
import { CliError, fileError } from '../errors/cli-error.ts';
import { configDirectory } from '../paths.ts';
import { loadConf } from './load-conf.ts';
import { Profile, type ProfileName, Settings } from './profile.ts';

const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;

/** The profiles' files: one a profile, because two processes that write one file lose updates. */
export type ProfileFiles = {
  pathOf(name: ProfileName): string;
  /** @throws CliError for a file that is damaged or cannot be read */
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

/** A plain read: conf would create the directory, and costs more to load than a whole command takes. */
function readFile<Schema extends z.ZodMiniType>(path: string, schema: Schema): z.output<Schema> | undefined {
  let text: string;
  try {
    // A pipe in its place would be waited for.
    const stats = statSync(path);
    if (!stats.isFile() && !stats.isDirectory()) throw new Error('it is not a file');
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw fileError(
      'read',
      path,
      error,
      'make it a file that you can read, or set PETS_CONFIG_DIR to another directory',
    );
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw damaged(path, 'it is not JSON');
  }
  const result = z.safeParse(schema, value);
  if (!result.success) throw damaged(path, describeIssues(result.error));
  return result.data;
}

function damaged(path: string, why: string): CliError {
  return new CliError(`${path} is damaged: ${why}`, {
    code: 'damaged_file',
    hint: `mend the file, or move it away and ${nextStep(path)}`,
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
    await ensureDirectory(realFiles, directory);
    chmodSync(directory, DIRECTORY_MODE);
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
    throw fileError(
      'write',
      join(directory, `${name}.json`),
      error,
      'make the directory writable, or set PETS_CONFIG_DIR to another',
    );
  }
}
