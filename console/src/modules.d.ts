// Stylesheets that esbuild takes into console.css.

declare module '*.css';
