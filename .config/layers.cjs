// The import rule: each folder of src may import itself and the folders that are listed for it.
const layers = {
  system: [],
  contract: [],
  client: ['system', 'contract'],
  store: ['system', 'contract'],
  server: ['system', 'contract', 'store'],
  cli: ['system', 'contract', 'client', 'store', 'server'],
  page: ['system', 'contract'],
};
// The folders of src/cli from bottom to top. Each may import itself and the folders before it.
const cliLayers = [
  'core',
  'output',
  'profiles',
  'program',
  'prompts',

  'connection',
  'animals',
  'rows',
  'import',
  'serve',
  'completion',
  'commands',
];
// The libraries that these folders may import. src/cli is not in the list: it may import any library.
const libraries = {
  system: [],
  contract: ['zod', 'lossless-json'],
  client: ['undici', 'zod'],
  store: ['zod', 'pg', 'pgpass'],
  server: ['zod', 'prom-client'],
  page: ['preact'],
};

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...Object.entries(layers).map(([layer, below]) => ({
      name: `${layer}-imports-only-downward`,
      severity: 'error',
      from: { path: `^src/${layer}/` },
      to: {
        path: '^(src|bin|test|bench)/',
        pathNot: `^src/(${[layer, ...below].join('|')})/`,
        // The page uses types of the server, but none of its code.
        ...(layer === 'page' && { dependencyTypesNot: ['type-only'] }),
      },
    })),
    ...cliLayers.map((layer, i) => ({
      name: `cli-${layer}-imports-only-downward`,
      severity: 'error',
      from: { path: `^src/cli/${layer}/` },
      to: { path: '^src/cli/', pathNot: `^src/cli/(${cliLayers.slice(0, i + 1).join('|')})/` },
    })),
    ...Object.entries(libraries).map(([layer, names]) => ({
      name: `${layer}-libraries`,
      severity: 'error',
      from: { path: `^src/${layer}/` },
      to: {
        dependencyTypes: ['npm', 'npm-dev', 'npm-no-pkg', 'unknown'],
        ...(names.length > 0 && { pathNot: `node_modules/(${names.join('|')})/` }),
      },
    })),
    {
      name: 'bin-imports-only-cli',
      severity: 'error',
      from: { path: '^bin/' },
      to: { path: '^(src|test|bench)/', pathNot: '^src/cli/' },
    },
    {
      name: 'contract-no-node',
      severity: 'error',
      from: { path: '^src/contract/' },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'pg-only-in-postgres',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/store/postgres/' },
      to: { path: 'node_modules/(@types/)?(pg|pgpass)/' },
    },
    { name: 'no-circle', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'resolvable',
      severity: 'error',
      // `npm run bench` installs what the peers import. Dredd provides the module `hooks` for the other file.
      from: {
        pathNot: '^(bench/peers/(fastify|fastify-server|hono)[.]mjs|test/fixtures/dredd-hooks[.]cjs)$',
      },
      to: { couldNotResolve: true },
    },
    {
      name: 'no-orphan',
      severity: 'error',
      from: { orphan: true, path: '^src/', pathNot: '[.]d[.]ts$' },
      to: {},
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  },
};
