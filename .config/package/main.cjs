// The main script of an executable. The files of dist/ are its assets, and are loaded as CommonJS modules.
const { getAsset } = require('node:sea');
const { compileFunction } = require('node:vm');
const { posix } = require('node:path');

const modules = new Map();

function load(path) {
  const loaded = modules.get(path);
  if (loaded) return loaded.exports;
  const module = { exports: {} };
  modules.set(path, module);
  const directory = posix.dirname(path);
  const requireFrom = (id) => (id.startsWith('.') ? load(posix.join(directory, id)) : require(id));
  const parameters = ['exports', 'require', 'module', '__filename', '__dirname'];
  const run = compileFunction(getAsset(path, 'utf8'), parameters, { filename: path });
  run(module.exports, requireFrom, module, path, directory);
  return module.exports;
}

load('pets.js');
