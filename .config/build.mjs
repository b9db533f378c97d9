// Bundles the command into dist/: one entry and the chunks that commands load when they need them; and what the entry
// answers without any of them.
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { build } from 'esbuild';
import { tsImport } from 'tsx/esm/api';

const outdir = 'dist';
await rm(outdir, { recursive: true, force: true });
const { metafile, outputFiles } = await build({
  entryPoints: { pets: 'bin/pets.ts' },
  outdir,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  chunkNames: 'chunks/[name]-[hash]',
  metafile: true,
  legalComments: 'none',
  logLevel: 'warning',
  write: false,
});
await mkdir(join(outdir, 'chunks'), { recursive: true });
const helpers = outputFiles.find(({ text }) => text.includes('typeof require'));
for (const file of outputFiles) await writeFile(file.path, file === helpers ? withRequire(file) : lean(file));
await chmod(join(outdir, 'pets.js'), 0o755);
const { collectAnswers } = await tsImport('./answers.ts', import.meta.url);
await writeFile(join(outdir, 'answers.json'), JSON.stringify(await collectAnswers()));
await writeFile(join(outdir, 'THIRD-PARTY-LICENSES.txt'), await licences(Object.keys(metafile.inputs)));

/** Packages written for require() find it where esbuild's helpers look for it. */
function withRequire({ text }) {
  return `import{createRequire as $r}from'node:module';const require=$r(import.meta.url);${text}`;
}

/** Without the import of the helpers where none is used: they do nothing by themselves, and loading them takes time. */
function lean({ text }) {
  return text.replaceAll(new RegExp(`^import "[./a-z]*/${basename(helpers.path)}";\n`, 'gm'), '');
}

/** The licence texts of what is inside the bundle, as their terms ask. */
async function licences(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const match = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) packages.add(match[1]);
  }
  const texts = await Promise.all([...packages].sort().map(licenceOf));
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

async function licenceOf(directory) {
  const { name, version, license } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8'));
  const title = `${name} ${version} (${license})\n\n`;
  for (const file of ['LICENSE', 'license', 'LICENSE.md', 'LICENSE.txt', 'LICENCE', 'License']) {
    const text = await readFile(join(dirname(join(directory, 'package.json')), file), 'utf8').catch(
      () => undefined,
    );
    if (text !== undefined) return title + text;
  }
  return title;
}
