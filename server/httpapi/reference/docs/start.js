// Everything comes from this server: the page's policy lets nothing else load, and validatorUrl keeps the viewer from
// sending the document's address to its makers.
SwaggerUIBundle({
  url: 'v1/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  docExpansion: 'list',
  filter: true,
  showCommonExtensions: true,
  validatorUrl: null,
});
