document.title = "Batches";
