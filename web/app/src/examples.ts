/** Public volumes whose hosts let pages of other origins read them. */

export const EXAMPLES = [
  {
    name: "Mouse liver, FIB-SEM, 8 nm",
    url: "s3://janelia-cosem-datasets/jrc_mus-liver/jrc_mus-liver.zarr/recon-1/em/fibsem-uint8",
    from: "OpenOrganelle, HHMI Janelia, CC BY 4.0",
  },
  {
    name: "HeLa cell, FIB-SEM, 4 nm",
    url: "s3://janelia-cosem-datasets/jrc_hela-2/jrc_hela-2.zarr/recon-1/em/fibsem-uint8",
    from: "OpenOrganelle, HHMI Janelia, CC BY 4.0",
  },
  {
    name: "Nuclei, fluorescence, two channels",
    url: "https://uk1s3.embassy.ebi.ac.uk/idr/zarr/v0.4/idr0062A/6001240.zarr",
    from: "Image Data Resource idr0062, CC BY 4.0",
  },
] as const;
