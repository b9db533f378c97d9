import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { expect } from 'vitest';
import { type Block, documents, readBlocks, repository } from './documents.ts';
import { freshMachine, serve, writeProgram } from './pets.ts';
import { SUPERUSER } from './postgres/databases.ts';
import { findPostgres } from './postgres/programs.ts';
import { startCluster } from './postgres.ts';
import { runProgram } from './run-program.ts';
import { isInstalled, testIf } from './skip.ts';

// Runs the blocks of the documents as a reader would, as scripts of sh.

/** The script of a block, by its language. `console` blocks have commands after `$ `, and the output below them. */
const scripts: Record<string, (text: string) => string> = {
  sh: (text) => text,
  console: (text) => (text.match(/(?<=^\$ ).*$/gm) ?? []).join('\n'),
  crontab: (text) => text.replace(/^(\S+\s+){5}/gm, ''),
  sql: (text) => `psql --no-psqlrc --set=ON_ERROR_STOP=1 --quiet <<'END'\n${text}END\n`,
};

export const isRunnable = ({ language }: Block): boolean => language in scripts;

export const needsPostgres = ({ language, text }: Block): boolean =>
  language === 'sql' || text.includes('postgres://');

/** Declares a test for each section. It runs the selected blocks of the section in order on one machine. */
export function testBlocks(isSelected: (block: Block) => boolean): void {
  const selected = documents
    .flatMap(readBlocks)
    .filter(
      (block) => isRunnable(block) && isSelected(block) && block.directive !== 'debian' && !block.skipReason,
    );
  for (const section of new Set(selected.map((block) => block.section))) {
    const blocks = selected.filter((block) => block.section === section);
    const text = blocks.map((block) => block.text).join('\n');
    const needed = ['jq', 'curl', 'pytest'].filter((program) => new RegExp(`\\b${program}\\b`).test(text));
    const missing = [...needed, ...(blocks.some(needsPostgres) ? ['psql'] : [])].filter(
      (program) => !isInstalled(program),
    );
    testIf(missing.length === 0, `not installed: ${missing.join(', ')}`)(section, async () => {
      const run = await readerMachine(blocks);
      for (const { at, language, text } of blocks) {
        const { code, output } = await run(scripts[language]?.(text) ?? '');
        expect(code, `${at}: ${output}`).toBe(0);
        const documented = text.split('\n').filter((line) => !/^(\$ .*|…|)$/.test(line));
        if (language === 'console') expect(output.split(/\r?\n/)).toEqual(expect.arrayContaining(documented));
      }
    });
  }
}

/** Creates a machine on which these blocks can run. Returns a function that runs a script there. */
async function readerMachine(blocks: readonly Block[]) {
  const machine = await freshMachine();
  const isNeeded = (directive: string) => blocks.some((block) => block.directive === directive);
  const { url, key, token } = isNeeded('service')
    ? await serve(machine, ['--no-profile'])
    : await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
  if (!isNeeded('service')) await machine.saveProfile('prod', { baseUrl: url, key });
  const database = blocks.some(needsPostgres) ? await startDatabase(isNeeded('store')) : undefined;
  if (isNeeded('store')) {
    const args = ['serve', '--seed', '--no-profile', '--', 'true'];
    expect(await machine.pets(args, { env: database?.env ?? {} })).toMatchObject({ code: 0 });
  }
  const cwd = await (isNeeded('package') ? copyPackage : writeProject)(join(machine.home, 'shop'), key);
  const env = {
    ...machine.env,
    ...database?.env,
    // npm installs the package from its directory, without network access.
    ...{ npm_config_prefix: join(machine.home, 'npm'), npm_config_offline: 'true' },
    ...(blocks[0]?.document === 'docs/testing.md' && {
      ...{ PETS_API_KEY: key, PETS_BASE_URL: url, PETS_SERVE_TOKEN: token },
    }),
    PATH: [
      join(machine.home, 'npm', 'bin'),
      await writeProgram(machine),
      machine.env['PATH'],
      findPostgres()?.directory,
    ].join(delimiter),
  };
  /** Runs a script with the URLs of this test. A server runs until its command ends, instead of in another terminal. */
  return (script: string) => {
    const local = script
      .replace(/https:\/\/(api\.example\.com|shop\.example)\/v1/g, url)
      .replaceAll('db.example:5432', database?.host ?? '')
      .replace(/^pets serve(?!.* -- )[^#\n]*/gm, '$& --port 0 -- true ');
    return runProgram('sh', ['-euvc', local], { cwd, env });
  };
}

/** Starts PostgreSQL for the commands in documents. psql connects to it as superuser by default. */
async function startDatabase(hasStore: boolean) {
  const { port, sql, url } = await startCluster();
  const server = { PGHOST: '127.0.0.1', PGPORT: `${port}`, PGUSER: SUPERUSER, PGDATABASE: 'postgres' };
  if (!hasStore) return { host: `127.0.0.1:${port}`, env: server };
  await sql('postgres', 'create role pets_server login');
  await sql('postgres', 'create database pets owner pets_server');
  return { host: `127.0.0.1:${port}`, env: { ...server, PETS_DATA: url('pets', 'pets_server') } };
}

/** Writes the files that the documents assume: animals, a key, a project with a test, examples, and libraries. */
async function writeProject(directory: string, key: string): Promise<string> {
  await cp(join(repository, 'docs', 'examples'), directory, { recursive: true });
  await symlink(join(repository, 'node_modules'), join(directory, 'node_modules'));
  const check = `const { PETS_BASE_URL: url, PETS_API_KEY: key } = process.env;
const { status } = await fetch(url + '/pets', { headers: { Authorization: 'Bearer ' + key } });
process.exitCode = status === 200 || status === 503 ? 0 : 1;
`;
  const files = {
    'animals.csv': 'name,category,status\nRex,1,available\nBella,2,pending\nFürst Pückler,2,\n',
    'key.txt': `${key}\n`,
    'check.mjs': check,
    'package.json': JSON.stringify({ private: true, type: 'module', scripts: { test: 'node check.mjs' } }),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  return directory;
}

/** Copies the files of the published package that npm needs to install it. */
async function copyPackage(directory: string): Promise<string> {
  await mkdir(directory);
  for (const name of ['package.json', 'dist'])
    await cp(join(repository, name), join(directory, name), { recursive: true });
  return directory;
}
