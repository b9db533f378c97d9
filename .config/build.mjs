// Bundles the command into dist/: the entry, the program with the chunks that commands load when they need them, and what
// the entry answers without the program.
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build, transform } from 'esbuild';
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

// What undici's client of HTTP/1 asks for, and does not need for bodies of text: HTTP/2, which brings Node's own with it,
// and the bodies of fetch, which bring all of fetch. To load them takes longer than a request.
const unneeded = {
  name: 'unneeded',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /\/(client-h2|web\/fetch\/body)\.js$/ }, ({ path, importer }) =>
      /undici\/lib\/dispatcher\/client(-h1)?\.js$/.test(importer)
        ? { path, namespace: 'unneeded' }
        : undefined,
    );
    onLoad({ filter: /./, namespace: 'unneeded' }, () => ({ contents: '' }));
  },
};

await rm(outdir, { recursive: true, force: true });
const program = await build({
  ...common,
  entryPoints: { program: 'src/cli/run.ts' },
  // Only modules of ES can be split; what they come to is written as CommonJS below.
  splitting: true,
  format: 'esm',
  chunkNames: 'chunks/[name]-[hash]',
  plugins: [unneeded],
  write: false,
});
await mkdir(join(outdir, 'chunks'), { recursive: true });
await Promise.all(program.outputFiles.map(writeCommonJs));
const entry = await build({
  ...common,
  entryPoints: { pets: 'bin/pets.ts' },
  format: 'cjs',
  supported: { 'dynamic-import': false },
  define: { 'import.meta.dirname': '__dirname' },
  plugins: [
    {
      name: 'program',
      setup: ({ onResolve }) =>
        onResolve({ filter: /\/run\.ts$/ }, () => ({ path: './program.js', external: true })),
    },
  ],
});
await writeFile(join(outdir, 'package.json'), '{"type":"commonjs"}\n');
await chmod(join(outdir, 'pets.js'), 0o755);
const { collectAnswers } = await tsImport('./answers.ts', import.meta.url);
await writeFile(join(outdir, 'answers.json'), JSON.stringify(await collectAnswers()));
const inputs = [program, entry].flatMap(({ metafile }) => Object.keys(metafile.inputs));
await writeFile(join(outdir, 'THIRD-PARTY-LICENSES.txt'), await licences(inputs));

/** Node starts its loader of ES modules, and loads by it, in more time than the modules themselves take. */
async function writeCommonJs({ path, text }) {
  const { code } = await transform(bindOnce(text), {
    platform: 'node',
    format: 'cjs',
    target: common.target,
    supported: { 'dynamic-import': false },
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 160,
    logLevel: 'warning',
  });
  await writeFile(path, code);
}

/**
 * Takes what a chunk imports once, when it is loaded: esbuild would look it up behind two getters at each use, which made
 * half of what a request of the service takes. Nothing is exported that changes later, and chunks do not import in a circle.
 */
function bindOnce(text) {
  return text.replace(
    /^import \{([^}]*)\} from ("[^"]+");$/gm,
    (_, names, from) => `const {${names.replaceAll(' as ', ': ')}} = require(${from});`,
  );
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
