// Bundles the command into dist/: the entry, the program with the chunks that commands load when they need them, and what
// the entry answers without the program.
import { chmod, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { tsImport } from 'tsx/esm/api';

const outdir = 'dist';
const common = {
  outdir,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  metafile: true,
  legalComments: 'none',
  logLevel: 'warning',
};

await rm(outdir, { recursive: true, force: true });
const program = await build({
  ...common,
  entryPoints: { program: 'src/cli/run.ts' },
  splitting: true,
  format: 'esm',
  outExtension: { '.js': '.mjs' },
  chunkNames: 'chunks/[name]-[hash]',
  // Packages written for require() find it here.
  banner: { js: "import{createRequire as $r}from'node:module';const require=$r(import.meta.url);" },
});
// Starting Node 20's loader of ES modules takes longer than all that the entry does.
const entry = await build({
  ...common,
  entryPoints: { pets: 'bin/pets.ts' },
  format: 'cjs',
  define: { 'import.meta.dirname': '__dirname' },
  plugins: [
    {
      name: 'program',
      setup: ({ onResolve }) =>
        onResolve({ filter: /\/run\.ts$/ }, () => ({ path: './program.mjs', external: true })),
    },
  ],
});
await writeFile(join(outdir, 'package.json'), '{"type":"commonjs"}\n');
await chmod(join(outdir, 'pets.js'), 0o755);
const { collectAnswers } = await tsImport('./answers.ts', import.meta.url);
await writeFile(join(outdir, 'answers.json'), JSON.stringify(await collectAnswers()));
const inputs = [program, entry].flatMap(({ metafile }) => Object.keys(metafile.inputs));
await writeFile(join(outdir, 'THIRD-PARTY-LICENSES.txt'), await licences(inputs));

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
