// Bundles the command into dist/: one entry and the chunks that commands load when they need them.
import { chmod, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';

const outdir = 'dist';
await rm(outdir, { recursive: true, force: true });
const { metafile } = await build({
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
  // Packages written for require() find it here.
  banner: { js: "import{createRequire as $r}from'node:module';const require=$r(import.meta.url);" },
  logLevel: 'warning',
});
await chmod(join(outdir, 'pets.js'), 0o755);
await writeFile(join(outdir, 'THIRD-PARTY-LICENSES.txt'), await licences(Object.keys(metafile.inputs)));

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
