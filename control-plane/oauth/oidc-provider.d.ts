/** The types of the files that library.ts imports; `@types/oidc-provider` describes the entry point alone. */
declare module 'oidc-provider/lib/provider.js' {
  export { Provider } from 'oidc-provider';
}
declare module 'oidc-provider/lib/helpers/errors.js' {
  import { errors } from 'oidc-provider';
  export = errors;
}
declare module 'oidc-provider/lib/helpers/interaction_policy/index.js' {
  import { interactionPolicy } from 'oidc-provider';
  export = interactionPolicy;
}
