// Importing `undici` loads the whole library, which slows down every command. Single files of undici have no types.
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';
  export default Agent;
}
