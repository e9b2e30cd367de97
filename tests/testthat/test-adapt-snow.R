# Verbs of package snow; doSNOW, which is built on them, is tested in tests/full.

test_cluster("snow's generics find muster's methods", {
  generics <- list(
    muster_node = c("sendData", "recvData", "closeNode"),
    muster_stock_node = c("sendData", "recvData", "closeNode"),
    muster_cluster = c("recvOneData", "stopCluster"),
    muster_joined = c("recvOneData", "stopCluster")
  )
  declared <- parseNamespaceFile("muster", dirname(getNamespaceInfo("muster", "path")))$S3methods
  declared <- declared[declared[, 4L] %in% "snow", ]
  expect_setequal(paste(declared[, 1L], declared[, 2L]), unlist(Map(
    function(names, class) paste(names, class), generics, names(generics)
  )))
})

test_cluster("snow's verbs take a cluster", {
  skip_without("snow")
  expect_identical(
    in_new_r(function() {
      cl <- cluster_start(2)
      y <- 4
      snow::clusterExport(cl, "y", environment())
      first <- list(
        snow::clusterApply(cl, 1:3, function(i) i^2),
        snow::clusterApplyLB(cl, 1:9, function(i) i^2),
        snow::clusterEvalQ(cl, y), snow::parSapply(cl, 1:4, function(i) i + 0.5),
        tryCatch(snow::clusterCall(cl, function() stop("no")), error = conditionMessage)
      )
      cluster_stop(cl[2])
      call <- tryCatch(snow::clusterApplyLB(cl, 1:3, identity), error = conditionCall)
      joined <- c(cl[1], makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()"))
      last <- list(as.character(call[[1L]])[3L], snow::clusterApplyLB(joined, 1:5, identity))
      snow::stopCluster(joined)
      c(first, last, format(cl[1]))
    })[1:7],
    list(
      list(1, 4, 9), as.list((1:9)^2), list(4, 4), 1:4 + 0.5,
      "2 nodes produced errors; first error: no", "clusterApplyLB", as.list(1:5)
    )
  )
})
