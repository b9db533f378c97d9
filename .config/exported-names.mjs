// Reports every name that two modules of src/ declare and export: each exported name has one meaning. Re-exports are fine.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

const modules = new Map();
for (const path of readdirSync('src', { recursive: true }).filter((name) => name.endsWith('.ts'))) {
  const file = join('src', path);
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest);
  for (const name of new Set(source.statements.flatMap(exportedNames))) {
    modules.set(name, [...(modules.get(name) ?? []), file]);
  }
}
const repeated = [...modules].filter(([, files]) => files.length > 1);
for (const [name, files] of repeated.sort()) console.error(`${name} is exported by ${files.join(' and ')}`);
if (repeated.length > 0) process.exitCode = 1;

function exportedNames(statement) {
  if (ts.isExportDeclaration(statement)) {
    const { moduleSpecifier, exportClause } = statement;
    return moduleSpecifier ? [] : exportClause.elements.map(({ name }) => name.text);
  }
  const isExported = statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
  if (!isExported) return [];
  return ts.isVariableStatement(statement)
    ? statement.declarationList.declarations.flatMap(({ name }) => boundNames(name))
    : [statement.name.text];
}

function boundNames(name) {
  return ts.isIdentifier(name) ? [name.text] : name.elements.flatMap((element) => boundNames(element.name));
}
