// Replaces the package env-paths, which conf imports. The package asks for the home directory when it is loaded, and that
// fails if the system does not know the user. pets chooses the directory of each file itself.
export default () => {
  throw new Error('conf needs the option cwd');
};
